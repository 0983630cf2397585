"""How close to the machine's limit this is, and what a value path costs."""
