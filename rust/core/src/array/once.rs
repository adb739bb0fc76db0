//! One application of a program: its calls are its own, and what it calls back is called once,
//! although several runs need what that gives.

use std::sync::{Arc, Mutex};

use crate::aval::Aval;
use crate::error::Result;
use crate::kernels::Value;
use crate::prim::Host;
use crate::program::Program;

/// A program for one application of it.
pub(super) fn application(program: &Program) -> Program {
    let mut program = program.clone();
    program.renew_calls(|call| {
        Arc::new(Once {
            call: call.bare().unwrap_or_else(|| Arc::clone(call)),
            last: Mutex::new(None),
        })
    });
    program
}

/// A call that is not repeated for the same values.
struct Once {
    call: Arc<dyn Host>,
    /// What it was given last, and what came of it.
    last: Mutex<Option<(Vec<Value>, Vec<Value>)>>,
}

impl Host for Once {
    fn name(&self) -> &str {
        self.call.name()
    }

    fn outputs(&self) -> &[Aval] {
        self.call.outputs()
    }

    fn call(&self, x: &[Value]) -> Result<Vec<Value>> {
        // Where it calls itself, or another thread is at it, waiting could last for ever.
        let Ok(mut last) = self.last.try_lock() else {
            return self.call.call(x);
        };
        if let Some((known, outs)) = &*last
            && known.len() == x.len()
            && known.iter().zip(x).all(|(a, b)| a.same_bits(b))
        {
            return Ok(outs.clone());
        }
        let outs = self.call.call(x)?;
        *last = Some((x.to_vec(), outs.clone()));
        Ok(outs)
    }

    fn derivative(&self, x: &[Aval]) -> Result<Arc<dyn Host>> {
        self.call.derivative(x)
    }

    fn bare(&self) -> Option<Arc<dyn Host>> {
        Some(Arc::clone(&self.call))
    }
}
