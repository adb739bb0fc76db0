"""What the compiled part of cotan calls in Python, handed over by name as `cotan` is imported.

`rust/py/src/runtime/hooks.rs` lists these hooks and says what each one does.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from cotan import _core
from cotan._src.api import custom_rules, derivatives, prepare
from cotan._src.array import fancy_indexing, fast_methods
from cotan._src.array import methods as array_methods
from cotan._src.inspect import nonfinite, report
from cotan._src.interpose import caller, install, prologue
from cotan._src.kit import repeated_call
from cotan._src.numpy import functions, indexing, matrix, products, ufunc_composites
from cotan._src.program import methods as program_methods
from cotan._src.program import serialization
from cotan._src.rebind import numpy_substitutes
from cotan._src.runtime import call_site, interrupts, ndarray_subclasses, values
from cotan._src.runtime.libraries import LIBRARIES_WITHOUT_USER_CODE
from cotan._src.state import (
    computing_guards,
    guard_texts,
    guarded_kinds,
    guards,
    random_states,
    reached_names,
)
from cotan._src.tree import class_registry, pickle_by_name, selection, tangent


def _lazy(module: str, name: str) -> Callable[..., Any]:
    """Give a function of a module that is imported with its first call: few programs need it."""
    found: Callable[..., Any] | None = None

    def call(*args: Any) -> Any:
        nonlocal found
        # In a recording an import takes 0.2 ms, of a module that is there already, too.
        function = found = found or getattr(import_module(module), name)
        return function(*args)

    return call


def set_hooks() -> None:
    """Hand over the hooks; one that is missing, or unknown, is an `ImportError`."""
    _core.set_hooks(
        # Errors and warnings.
        nonfinite_error=nonfinite.found,
        name_nonfinite_leaves=nonfinite.name,
        without_user_code=LIBRARIES_WITHOUT_USER_CODE,
        error_hint=_lazy("cotan._src.interpose.error_hints", "hint"),
        raise_interrupt=interrupts.raise_interrupt,
        explain_error=_lazy("cotan._src.interpose.error_hints", "explain"),
        with_state=_lazy("cotan._src.tree.callable_state", "with_state"),
        argument_refusal=_lazy("cotan._src.tree.argument_refusal", "refusal"),
        user_code_asks=call_site.called_from_user_code,
        warn=call_site.warn,
        # Reading the values of arrays.
        is_formatting=call_site.is_formatting,
        is_shuffling=call_site.is_shuffling,
        value_is_discarded=_lazy("cotan._src.interpose.index_context", "value_is_discarded"),
        may_index_ndarray=_lazy("cotan._src.interpose.index_context", "may_index_ndarray"),
        state_of_callbacks=repeated_call.state_of_callbacks,
        repeated_call=repeated_call.repeat,
        check_of_text=_lazy("cotan._src.interpose.text_uses", "check_of_text"),
        global_random_states=random_states.global_random_states,
        by_keyword=prepare.by_keyword,
        prepared_report=_lazy("cotan._src.inspect.prepared_report", "made"),
        described=guard_texts.described,
        warn_recording=_lazy("cotan._src.inspect.prepared_report", "warn_recording"),
        place=prepare.place,
        as_objects=array_methods.as_objects,
        item=array_methods.item,
        tolist=array_methods.tolist,
        elements=fast_methods.elements,
        # Operands and indexing.
        array=_core.array,
        over_array_class=values.OverArray,
        matrix_class=matrix.Matrix,
        flat_class=numpy_substitutes.Flat,
        sign_of_complex=ufunc_composites.sign_of_complex,
        matmul_around_nan=products.around_gaps,
        getitem=fancy_indexing.getitem,
        setitem=fancy_indexing.setitem,
        updated=fancy_indexing.updated,
        written_last=indexing.written_last,
        is_plain_subclass=ndarray_subclasses.is_plain,
        subclass_refusal=ndarray_subclasses.refusal,
        # Structures.
        class_layout=class_registry.layout,
        copy_hidden=class_registry.copy_hidden,
        tangent_class=tangent.Tangent,
        gradients_class=tangent.Gradients,
        zero=custom_rules.zero,
        const=derivatives.const,
        pickle_by_name=pickle_by_name.by_name,
        argument_names=selection.argument_names,
        code_names=selection.code_names,
        expect_arguments=selection.expect_arguments,
        listed_arrays=selection.listed_arrays,
        leaf_info_class=selection.LeafInfo,
        select=selection.select,
        empty_object=serialization.empty,
        outline_to_json=serialization.portable,
        outline_from_json=serialization.outline,
        # Interposition.
        install=install.install,
        module_attribute=install.found,
        calling_package=caller.calling_package,
        is_call_of=caller.is_call_of,
        add_prologue=prologue.add_prologue,
        array_ufunc=_lazy("cotan._src.numpy.ufunc_protocol", "array_ufunc"),
        array_function=functions.array_function,
        array_functions=functions.FUNCTIONS,
        function_of_subclasses=ndarray_subclasses.function_of_others,
        # Derivative rules.
        takes_wanted=custom_rules.takes_wanted,
        pullback_of=custom_rules.pulled,
        # Solvers.
        look_up_names=_lazy("cotan._src.state.library_names", "look_up"),
        library_part=_lazy("cotan._src.state.library_names", "library_part"),
        # Prepared functions and programs.
        guards=guards.collect_guards,
        attempt=computing_guards.Attempt.of,
        functions_in=guarded_kinds.functions_in,
        tells_numbers_apart=reached_names.tells_numbers_apart,
        output_pairs=prepare.pairs,
        copied=prepare.copied,
        result_class=prepare.Result,
        by_position=program_methods.by_position,
        report=report.build,
        export_onnx=_lazy("cotan._src.onnx.export", "export_program"),
    )
