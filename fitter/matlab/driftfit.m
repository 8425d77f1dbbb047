% SPDX-License-Identifier: MIT
function results = driftfit (images, varargin)
% DRIFTFIT  Fits a 2-D Gaussian on a constant background to every image of a stack, on the GPU or
% the CPU. The library's rotated model, details, whole frames and swarm are for C and Python alone.
%
%   results = driftfit (images)
%   results = driftfit (images, 'name', value, ...)
%
%   images      S x S x N, uint8, uint16, single or double; S from 4 to 64
%
% The names, and their values without them:
%   model       'circular' or 'elliptical', the axes along rows and columns        ('circular')
%   estimator   'implicit', 'least_squares', 'weighted' (needs variances), 'poisson'  ('implicit')
%   integrated  true: a pixel is the Gaussian's mean over its area, instead of its value at its
%               centre                                                                (false)
%   start       3 x N or 3 x 1: x, y, sigma; or 4 rows: x, y, sigma_x, sigma_y; pixels, x counts
%               columns, y rows, the centre of images(1, 1, :) is (0, 0). []: each fit estimates
%               its own
%   levels      2 x N or 2 x 1: amplitude, background to start from               (those that fit)
%   variances   S x S x N, or S x S for all images, single or double, of each pixel. Weighted least
%               squares: its noise; poisson: its read noise; the others refuse them. Inf: the pixel
%               is not there.
%               One below 0, or NaN, makes status 5.
%   fixed       name, or cell of names, of parameters that keep their start value, which start or
%               levels has to give: x, y, sigma_x, sigma_y, amplitude, background; a circular
%               Gaussian's sigma is sigma_x. Not with implicit.
%   bounds      struct of [lower, upper] by a parameter's name. Not with implicit.
%   gain        electrons per pixel unit; 0: not known. Uncertainties, likelihood         (0)
%   offset, read_noise, excess_noise   pixel value without light; electrons rms; 2 for an EMCCD
%                                                                                    (0, 0, 1)
%   saturation  pixels at or above are bad input; 0: none is                              (0)
%   min_background, spots_only, max_iterations, lambda_start, lambda_max, min_chi_square,
%   min_decrease, min_step   as in driftfit.h     (-Inf, true, 20, 0.01, 1e4, 0, 1e-6, 1e-4)
%
% results is a struct of rows of N numbers, single:
%   x, y, sigma_x, sigma_y (pixels), amplitude, background (pixel units), chi_square (poisson:
%   the deviance), x_sd, y_sd, sigma_x_sd, sigma_y_sd, amplitude_sd, background_sd: standard
%   deviations, iterations; and double:
%   status      0, 1, 2: converged, by min_chi_square, min_decrease, min_step; 3: max_iterations; 4:
%               not converged, or no spot; 5: pixels not finite, all equal or saturated, no results
%
% Mistakes are errors named driftfit:argument, failures driftfit:failed.
  if (nargin < 1 || mod (numel (varargin), 2) ~= 0)
    error ('driftfit:argument', 'driftfit: the call is driftfit (images, ''name'', value, ...)');
  end
  options = struct ();
  for i = 1:2:numel (varargin)
    if (~ischar (varargin{i}) || isempty (regexp (varargin{i}, '^[a-z_]+$', 'once')))
      error ('driftfit:argument', 'driftfit: argument %d has to be an option''s name', i + 1);
    end
    options.(varargin{i}) = varargin{i + 1};
  end
  results = driftfit_mex (images, options);
end
