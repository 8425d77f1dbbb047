# SPDX-License-Identifier: MIT
"""Man pages in scdoc's format and shell completions, made from what exists once.

A program's option table is what ``PROGRAM --describe-command-line`` prints; the pages on the
configuration and on the protocol are those of docs/.
"""
