% SPDX-License-Identifier: MIT
function varargout = fit2dgaussian (varargin)
% FIT2DGAUSSIAN  Fits a circular 2-D Gaussian on a constant background to every image of a stack.
%
%   [status, x, y, sigma, amplitude, background, chi_square, iterations] = ...
%       fit2dgaussian (images, start, criteria)
%
% The call of Fit2DGaussian (Leutenegger & Weber 2021), on libdriftfit: least squares with amplitude
% and background eliminated.
%
%   images      S x S x N, uint8, uint16, single or double; S from 4 to 64
%   start       3 x N or 3 x 1: x, y, sigma, pixels; []: each fit estimates its own
%   criteria    [max_error, min_delta, min_step, max_iterations], as many as you like: stop when
%               chi-square falls below max_error (default 0), when it decreases by less than
%               min_delta of itself (1e-6), when every parameter changes by less than min_step of
%               sigma (1e-4), after max_iterations (20)
%
% Results are rows of N numbers, all but status single:
%   status      0, 1, 2: stopped by max_error, min_delta, min_step; 3: by max_iterations; 4: not
%               converged; 5: pixels not finite or all equal, and no results
%   x, y        pixels; x counts columns, y rows, and the centre of images(1, 1, :) is (0, 0)
%   sigma       pixels
%   amplitude   above background, pixel units
%   chi_square  sum of the squared residuals
%
% Any minimum counts, whether it is a spot or not, as in the paper. Mistakes are errors named
% fit2dgaussian:argument, failures fit2dgaussian:failed.
  [varargout{1:max(nargout, 1)}] = fit2dgaussian_mex (varargin{:});
end
