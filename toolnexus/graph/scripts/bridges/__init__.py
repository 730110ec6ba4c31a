"""The globals of the standard surface: each bridges to one part of the run."""
