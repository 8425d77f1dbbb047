% SPDX-License-Identifier: MIT
% driftfit in Octave. Run with build/<preset>/octave in the path; an error fails it.
1;

% truth: 6 x N of x, y, sigma_x, sigma_y, amplitude, background; integrated: sums over each pixel
function images = spots (truth, side, integrated)
  images = zeros (side, side, columns (truth));
  for i = 1:columns (truth)
    t = truth(:, i);
    x = profile (t(1), t(3), side, integrated);
    y = profile (t(2), t(4), side, integrated);
    images(:, :, i) = t(5) * (y' * x) + t(6);  % rows count y
  end
end

function f = profile (centre, sigma, side, integrated)
  at = 0:side - 1;
  f = exp (-(at - centre) .^ 2 / (2 * sigma ^ 2));
  if (integrated)
    root = sqrt (2) * sigma;
    f = sqrt (pi) / 2 * root * (erf ((at + 0.5 - centre) / root) - erf ((at - 0.5 - centre) / root));
  end
end

function fails (text, varargin)
  try
    driftfit (varargin{:});
  catch problem
    assert (problem.identifier, "driftfit:argument");
    assert (! isempty (strfind (problem.message, text)), problem.message);
    return;
  end
  error ("no error: %s", text);
end

function check (found, truth, margin)
  assert (all (found.status <= 2));
  assert (double ([found.x; found.y; found.sigma_x; found.sigma_y]), truth(1:4, :), margin);
  assert (double ([found.amplitude; found.background]), truth(5:6, :), 100 * margin);
end

truth = [4.2, 3.1, 5; 5.6, 4.4, 4; 1.3, 1.7, 1.1; 1.6, 1.2, 1.4; 200, 400, 300; 10, 20, 30];
images = spots (truth, 11, false);
round = truth([1, 2, 3, 3, 5, 6], :);

found = driftfit (spots (round, 11, false));
check (found, round, 1e-4);
assert (class (found.x), "single");
assert (size (found.x_sd), [1, 3]);
assert (all (found.iterations >= 1));

% Every estimator, of images whose noise is rounding.
for estimator = {"implicit", "least_squares", "poisson", "weighted"}
  each = 4 * ones (11, 11, 3);
  same = single (4 * ones (11, 11));
  if (any (strcmp (estimator{1}, {"implicit", "least_squares"})))
    each = same = [];  % which these do not use
  end
  check (driftfit (images, "model", "elliptical", "estimator", estimator{1}, "gain", 1,
                   "variances", each), truth, 2e-3);
  check (driftfit (spots (truth, 11, true), "model", "elliptical", "estimator", estimator{1}, "gain", 1,
                   "integrated", true, "variances", same), truth, 2e-3);
end

% Pixels of infinite variance are not there; without that they spoil the fit.
broken = images;
variances = 4 * ones (11, 11, 3);
broken(2, 9, 1) = 5000;  % row 2, column 9
variances(2, 9, 1) = Inf;
elliptical = {"model", "elliptical", "estimator", "weighted"};
check (driftfit (broken, elliptical{:}, "variances", variances), truth, 1e-3);
variances(2, 9, 1) = 4;
assert (abs (driftfit (broken, elliptical{:}, "variances", variances, "spots_only", false).x(1) - 4.2) > 0.05);

% Start values and levels of each or all; what is fixed stays, in its own direction.
all_of = {"model", "elliptical", "estimator", "least_squares"};
starts = truth(1:4, :) + [0.3; -0.2; 0.2; 0.1];
check (driftfit (images, all_of{:}, "start", starts, "levels", [250; 15]), truth, 1e-3);
for name = {"x", "y", "sigma_x", "sigma_y"}
  kept = driftfit (images, all_of{:}, "start", starts, "fixed", name{1}, "spots_only", false);
  row = find (strcmp (name{1}, {"x", "y", "sigma_x", "sigma_y"}));
  assert (double (kept.(name{1})), starts(row, :), 1e-6);
  assert (kept.([name{1}, "_sd"]), single ([0, 0, 0]));
end
kept = driftfit (images, all_of{:}, "start", starts, "levels", [truth(5, :); [11, 22, 33]],
                 "fixed", {"background", "x"}, "spots_only", false);
assert (double (kept.background), [11, 22, 33], 1e-5);
assert (double (kept.x), starts(1, :), 1e-6);
circular = driftfit (spots (round, 11, false), "estimator", "least_squares", "start", [5; 5; 1.25],
                     "fixed", "sigma_x", "spots_only", false);
assert (double (circular.sigma_y), [1.25, 1.25, 1.25], 1e-6);
bound = driftfit (images, all_of{:}, "bounds", struct ("y", [0, 4.3], "sigma_x", [1.2, 9]), "spots_only", false);
assert (double (bound.y), [4.3, 4.3, 4], 0.01);
assert (double (bound.sigma_x), [1.3, 1.7, 1.2], 0.1);

% Uncertainties are those of the direction: more pixels of light along y, or less precise.
noisy = driftfit (images, "model", "elliptical", "gain", 1);
assert (noisy.y_sd(1) > noisy.x_sd(1));
assert (noisy.sigma_y_sd(1) > noisy.sigma_x_sd(1));

assert (driftfit (uint8 (images / 2), "saturation", 100).status == 5, truth(5, :) / 2 > 99);
assert (isempty (driftfit (zeros (9, 9, 0)).x));
fails ("the call is");
fails ("the call is", images, "gain");
fails ("argument 2", images, 3, 4);
fails ("argument 2", images, "no name", 4);
fails ("no option 'gian'", images, "gian", 4);
fails ("model has to be one of circular, elliptical", images, "model", "round");
fails ("estimator has to be one of implicit", images, "estimator", 3);
fails ("gain has to be one number", images, "gain", [1, 2]);
fails ("gain", images, "gain", NaN);
fails ("max_iterations has to be a whole number from 1 to 255", images, "max_iterations", 0.5);
fails ("integrated has to be a whole number from 0 to 1", images, "integrated", 2);
fails ("start has to have", images, "start", ones (2, 3));
fails ("start has to have", images, "start", ones (3, 2));
fails ("levels has to have", images, "levels", ones (3, 3));
fails ("the lower one first", images, "bounds", struct ("y", [5, 3]));
fails ("no sigma_y", images, "bounds", struct ("sigma_y", [1, 3]));
fails ("no sigma_y", images, "estimator", "poisson", "fixed", "sigma_y", "start", [5; 5; 1]);
fails ("widths above 0", images, "start", [5; 5; 0]);
fails ("widths above 0", images, "model", "elliptical", "start", [5; 5; 1; 0]);
assert (isempty (driftfit (zeros (9, 9, 0), "estimator", "weighted", "variances", zeros (9, 9, 0),
                           "start", zeros (3, 0), "fixed", "x").x));
fails ("this estimator does not use", images, "variances", 4 * ones (11, 11, 3));
fails ("variances have to be", images, "variances", ones (11, 9));
fails ("variances", images, "estimator", "weighted");
fails ("fixed has to be one of", images, "fixed", "z");
fails ("bounds have to be", images, "bounds", 3);
fails ("a bound has to be one of", images, "bounds", struct ("z", [1, 2]));
fails ("bounds.x has to be [lower, upper]", images, "bounds", struct ("x", 1));
fails ("S x S x N", zeros (9, 8));
printf ("driftfit: passed\n");
