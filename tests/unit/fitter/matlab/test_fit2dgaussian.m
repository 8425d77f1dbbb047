% SPDX-License-Identifier: MIT
% fit2dgaussian in Octave. Run with build/<preset>/octave in the path; an error fails it.
1;

function images = spots (truth, side)  % truth: 5 x N of x, y, sigma, amplitude, background
  [x, y] = meshgrid (0:side - 1);
  images = zeros (side, side, columns (truth));
  for i = 1:columns (truth)
    t = truth(:, i);
    images(:, :, i) = t(4) * exp (-((x - t(1)) .^ 2 + (y - t(2)) .^ 2) / (2 * t(3) ^ 2)) + t(5);
  end
end

function fails (id, text, varargin)
  try
    fit2dgaussian (varargin{:});
  catch problem
    assert (problem.identifier, id);
    assert (! isempty (strfind (problem.message, text)), problem.message);
    return;
  end
  error ("no error: %s", text);
end

truth = [4.2, 3.1, 5; 5.6, 4.4, 4; 1.3, 1.7, 1.1; 200, 400, 100; 10, 20, 30];
images = spots (truth, 11);

% All outputs, of images whose noise is rounding: x counts columns, y rows, from 0.
[status, x, y, sigma, amplitude, background, chi_square, iterations] = fit2dgaussian (images);
assert (size (status), [1, 3]);
assert (all (status <= 2));
assert (class (x), "single");
assert (double ([x; y; sigma]), truth(1:3, :), 1e-4);
assert (double ([amplitude; background]), truth(4:5, :), 1e-2);
assert (all (chi_square < 1e-3));
assert (all (iterations >= 1 & iterations <= 20));

% The types of pixels agree to what rounding takes from them.
[s16, x16] = fit2dgaussian (uint16 (images));
[s8, x8] = fit2dgaussian (uint8 (images / 2));
[s32, x32] = fit2dgaussian (single (images));
assert (all ([s16, s8, s32] <= 2));
assert (x16, x, 0.01);
assert (x8, x, 0.03);
assert (x32, x);

% Start values of each image or of all; a good start takes fewer iterations.
[~, xw, yw, ~, ~, ~, ~, warm] = fit2dgaussian (images, truth(1:3, :));
assert (double ([xw; yw]), truth(1:2, :), 1e-4);
assert (sum (warm) < sum (iterations));
[~, xo, yo] = fit2dgaussian (images, single ([5; 5; 1.5]));
assert (double ([xo; yo]), truth(1:2, :), 1e-4);

% The criteria, one after another, say by which of them a fit ended.
assert (fit2dgaussian (images, [], 1e9), [0, 0, 0]);
assert (fit2dgaussian (uint16 (images), [], [0, 0.5, 0]), [1, 1, 1]);
assert (fit2dgaussian (images, [], [0, 0, 0.5]), [2, 2, 2]);
[status, ~, ~, ~, ~, ~, ~, iterations] = fit2dgaussian (images, [5; 5; 3], [0, 0, 0, 1]);
assert (status, [3, 3, 3]);
assert (double (iterations), [1, 1, 1]);

% Any minimum counts: a dip is no spot, and fitted.
[status, xd, ~, ~, amplitude] = fit2dgaussian (500 - images, [5; 4; 1.5]);
assert (all (status <= 2));
assert (all (amplitude < 0));
assert (xd, x, 1e-3);

% Pixels that are no numbers.
broken = images;
broken(3, 3, 2) = NaN;
[status, x] = fit2dgaussian (broken);
assert (status == 5, [false, true, false]);
assert (isnan (x), [false, true, false]);

assert (size (fit2dgaussian (zeros (9, 9, 0))), [1, 0]);
argument = "fit2dgaussian:argument";
fails (argument, "the call is");
fails (argument, "S x S x N", zeros (9, 8));
fails (argument, "4 to 64", zeros (3, 3));
fails (argument, "uint8, uint16", int32 (zeros (9, 9)));
fails (argument, "3 x N", images, zeros (2, 3));
fails (argument, "3 x N", images, zeros (3, 2));
fails (argument, "criteria", images, [], ones (1, 5));
fails (argument, "max_iterations", images, [], [0, 0, 0, 300]);
fails (argument, "min_decrease", images, [], [0, -1]);
printf ("fit2dgaussian: passed\n");
