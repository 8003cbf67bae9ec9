"""Measures loading without a model: `scripts/bench infer`."""
