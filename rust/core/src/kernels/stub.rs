#![allow(missing_docs, clippy::all)]
use super::*;
use crate::error::*;
pub fn matmul(a: &Value, b: &Value, ctx: &Ctx) -> Result<Value> {
    let a = copy(a, ctx)?; let b = copy(b, ctx)?;
    let (m,k,n) = (a.shape()[0], a.shape()[1], b.shape()[1]);
    match a.dtype() { crate::DType::F64 => { let (x,y)=(a.as_slice::<f64>().unwrap(), b.as_slice::<f64>().unwrap()); let mut o=vec![0.0;m*n]; for i in 0..m { for p in 0..k { for j in 0..n { o[i*n+j]+=x[i*k+p]*y[p*n+j]; }}} Value::from_slice(&[m,n],&o) }
     _ => { let (x,y)=(a.as_slice::<f32>().unwrap(), b.as_slice::<f32>().unwrap()); let mut o=vec![0.0;m*n]; for i in 0..m { for p in 0..k { for j in 0..n { o[i*n+j]+=x[i*k+p]*y[p*n+j]; }}} Value::from_slice(&[m,n],&o) } }
}
