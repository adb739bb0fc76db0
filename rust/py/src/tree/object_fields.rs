//! Takes objects and named tuples apart: their fields, what their class declares as trainable, and what integers are in
//! a field.

use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString, PyTuple};

use crate::runtime::slots::{instance_dict, slot_value};
use crate::runtime::text;
use crate::tree::class_layout::{self, Annotated, Layout, check_declared};
use crate::tree::fault::Parts;
use crate::tree::flatten::{Flattener, Position};
use crate::tree::integers::Integers;
use crate::tree::treedef::{Form, Tree, other};

impl Flattener {
    pub(super) fn fields(
        &mut self,
        object: &Bound<'_, PyAny>,
        layout: &Layout,
        active: bool,
    ) -> Parts<Tree> {
        let py = object.py();
        let trainable = self.declared_by(object)?;
        let mut fields: Vec<(Bound<'_, PyString>, Bound<'_, PyAny>)> = Vec::new();
        for name in &layout.slots {
            let name = name.bind(py);
            if let Some(value) = slot_value(object, name)? {
                fields.push((name.clone(), value));
            }
        }
        if layout.has_dict {
            let dict = instance_dict(object)?;
            fields.reserve(dict.len());
            for (name, value) in dict.iter() {
                if let Ok(name) = name.cast_into::<PyString>() {
                    fields.push((name, value));
                }
            }
        }
        if let Some(skipped) = &layout.skipped {
            let skipped = skipped.bind(py);
            fields.retain(|(name, _)| !skipped.contains(name).unwrap_or(false));
        }
        if trainable.is_some() {
            let names: Vec<_> = fields.iter().map(|(n, _)| n.clone().into_any()).collect();
            check_declared(object, trainable.as_ref(), &names)?;
        }
        let mut items = Vec::with_capacity(fields.len());
        for (name, value) in fields {
            let asked = self.enter_field(layout, &name, &value, trainable.as_ref(), active)?;
            let tree = self
                .part(&value, Position::Nested, active && asked)
                .map_err(|f| f.at(|| Ok(format!(".{}", text::owned(&name)))))?;
            items.push((name.unbind(), tree));
        }
        Ok(Tree::Object(object.clone().unbind(), items))
    }

    /// What the class of an object declares as trainable, if that counts.
    pub(super) fn declared_by<'py>(
        &mut self,
        object: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !self.declared {
            return Ok(None);
        }
        let py = object.py();
        let address = object.get_type_ptr() as usize;
        if let Some((_, known)) = self.trainable.iter().find(|(a, _)| *a == address) {
            return Ok(known.as_ref().map(|k| k.bind(py).clone()));
        }
        let declared = class_layout::trainable(&object.get_type())?;
        let kept = declared.as_ref().map(|d| d.clone().unbind());
        self.trainable.push((address, kept));
        Ok(declared)
    }

    pub(super) fn subtuple(
        &mut self,
        object: &Bound<'_, PyAny>,
        layout: &Layout,
        active: bool,
    ) -> Parts<Tree> {
        let py = object.py();
        let tuple = object.cast::<PyTuple>().map_err(PyErr::from)?;
        let items = match &layout.names {
            Some(names) if names.len() == tuple.len() => {
                let keys: Vec<_> = names
                    .iter()
                    .map(|n| n.bind(py).clone().into_any())
                    .collect();
                let trainable = self.declared_by(object)?;
                check_declared(object, trainable.as_ref(), &keys)?;
                let entries: Vec<_> = tuple.iter().collect();
                self.named(&keys, &entries, trainable.as_ref(), Some(layout), active)?
            }
            _ => self.entries(tuple.iter().collect(), active)?,
        };
        if layout.has_fields() {
            return Ok(other(object, Form::Tuple, Vec::new(), items));
        }
        let class = object.get_type().into_any().unbind();
        Ok(Tree::Tuple(Some(class), items))
    }

    /// Notes what integers are in a dictionary; gives whether it is a configuration: with strings beside
    /// them they are data.
    pub(super) fn enter_dictionary<'a, 'py: 'a>(
        &mut self,
        mut items: impl Iterator<Item = &'a Bound<'py, PyAny>>,
    ) -> bool {
        let is_configuration =
            self.unmarked != Integers::Data && items.any(PyAnyMethods::is_instance_of::<PyString>);
        if is_configuration {
            self.settled += 1;
            self.field = Integers::Unclear;
        }
        self.integers = self.field;
        is_configuration
    }

    /// Notes what integers are in a field; gives whether the class asks for the field.
    pub(super) fn enter_field(
        &mut self,
        layout: &Layout,
        name: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        trainable: Option<&Bound<'_, PyAny>>,
        active: bool,
    ) -> PyResult<bool> {
        let asked = trainable.map_or(Ok(true), |names| names.contains(name))?;
        if active && !asked {
            self.settled += 1;
        }
        if self.unmarked != Integers::Data {
            let declared = trainable.is_some() && asked && value.is_exact_instance_of::<PyInt>();
            self.field = match layout.annotated(name)? {
                Some(Annotated::Integer) => Integers::Data,
                Some(Annotated::Float) => Integers::Numbers,
                None if declared => Integers::Numbers,
                None if layout.is_data => Integers::Data,
                None => self.unmarked,
            };
            self.integers = self.field;
        }
        Ok(asked)
    }
}
