"""Runtimes for the scripts of a graph."""

from toolnexus.graph.scripts.bindings import Binding, BindingsProvider, NoBindings, chain
from toolnexus.graph.scripts.invocation import Function, Invocation
from toolnexus.graph.scripts.runtime import (
    Handle,
    HostCall,
    Method,
    ScriptError,
    ScriptFailure,
    ScriptRuntime,
    Signal,
)
from toolnexus.graph.scripts.runtimes import JsRuntime, LuaRuntime
from toolnexus.graph.scripts.standard import StandardBindings

__all__ = [
    "Binding",
    "BindingsProvider",
    "Function",
    "Handle",
    "HostCall",
    "Invocation",
    "JsRuntime",
    "LuaRuntime",
    "Method",
    "NoBindings",
    "ScriptError",
    "ScriptFailure",
    "ScriptRuntime",
    "Signal",
    "StandardBindings",
    "chain",
]
