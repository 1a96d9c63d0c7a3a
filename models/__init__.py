"""The workloads: mathematics only, no clock, no measurement.

A workload is one folder: `spec.py` says what is computed (parameters, inputs, sizes, layers),
`*_model.py` write it out plainly for one framework each, `golden.json` holds the float64 reference
values.
"""
