"""The same work in other packages, one file each; see `__main__`.

A file says what is installed (`REQUIRES`, the newest releases above those) and which environment variables
are set (`SETTINGS`), and has a class `Peer`, a `benchmarks.side.Side`, written as the documentation of the
package says. Nothing of the package is imported before a `Peer` is made.
"""
