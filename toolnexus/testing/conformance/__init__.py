"""Plays fixtures, which are data, against this package or any other implementation.

What it is: the runner of conformance/FORMAT.md, which holds every script, and both ends of the protocol of
conformance/DRIVER.md. What it is not: a way around the package; its driver uses public names alone.
"""
