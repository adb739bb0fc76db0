//! Says which arguments of a primitive its result depends on other than by jumps.

use crate::aval::Aval;
use crate::prim::{Class, Params, Partial, Prim, Var};
use crate::program::Builder;

/// Whether a derivative may pass from an argument of this number to the result.
pub fn passes(prim: Prim, params: &Params, args: &[&Aval], i: usize) -> bool {
    let Class::Elementwise { partials, .. } = &prim.0.class else {
        return true;
    };
    let Some(partials) = partials else {
        return false;
    };
    let builder = Builder::new();
    let vars: Vec<Var> = args.iter().map(|aval| builder.input("", aval)).collect();
    let Ok(out) = builder.push(prim, params.clone(), &vars) else {
        return true;
    };
    let x: Vec<_> = vars.iter().map(|&var| builder.value(var)).collect();
    !matches!(partials(&x, builder.value(out), i), Partial::Zero)
}
