"""Studies: many runs of `fit`, which of them are left to do, and doing them."""
