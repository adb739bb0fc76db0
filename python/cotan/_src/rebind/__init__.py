"""Running library source on arrays of ours: its functions with substituted globals."""
