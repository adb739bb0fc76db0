//! The value of `sum(sin(x) * cos(c))`, its gradient with respect to `x`, and the program of its
//! pullback. `c` is constant: its cosine is computed once, and it has no derivative.
//!
//! `cargo run --example seed`
#![allow(clippy::print_stdout)] // examples print

use cotan::{Arg, Array, constant, pullback, value_and_gradient};
use ndarray::Array1;

fn main() -> cotan::Result<()> {
    let x = Array::from_ndarray(&Array1::linspace(0.0, 1.0, 5))?;
    let c = Array::from_ndarray(&Array1::linspace(1.0, 2.0, 5))?;
    let f = |v: &[Array]| v[0].sin()?.mul(&v[1].cos()?)?.sum(..);

    let (value, gradient) = value_and_gradient(f, &[Arg::from(&x), constant(&c)])?;
    println!("value     {}", value.item()?);
    if let Some(g) = &gradient[0] {
        println!("gradient  {:.4}", g.to_ndarray::<f64>()?);
    }
    println!("gradient with respect to c: {:?}\n", gradient[1]);

    let (_, back) = pullback(f, &[Arg::from(&x), constant(&c)])?;
    println!("{}", back.program());
    println!(
        "It keeps {} arrays, {} bytes.",
        back.residuals().len(),
        back.nbytes()
    );
    Ok(())
}
