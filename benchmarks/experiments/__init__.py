"""Experiments: failures of a cluster, caused and measured. No part of the product.

``python -m benchmarks.experiments recovery|restart|repair`` starts a temporary cluster, kills a
part of it, and measures the time until the rest recovers. ``commands`` has the commands, the module
of the same name has the experiment. ``dying_writer`` is a program that an experiment kills.
Uninterrupted loads are commands of ``zbk bench``.
"""
