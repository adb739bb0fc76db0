//! The two macros that turn entries into static table rows. Every field is mandatory; an entry that
//! leaves one out does not compile.

/// Elementwise entries: `NAME name(args) { types, lane, partials, onnx, wgsl, numpy, samples }`.
/// Also defines `for_each_elementwise!(callback)`, which hands `NAME name(args) doc;` of every entry
/// to another macro: that is how functions are stamped from the table.
macro_rules! elementwise {
    ($d:tt $(
        $(#[doc = $doc:literal])*
        $NAME:ident $name:ident($($arg:ident),*) {
            types: $types:ident,
            lane: $lane:ident,
            partials: $partials:expr,
            onnx: $onnx:expr,
            wgsl: $wgsl:expr,
            numpy: $numpy:literal,
            samples: $samples:expr,
        }
    )*) => {
        $(
            $(#[doc = $doc])*
            pub const $NAME: Prim = {
                static DEF: PrimDef = PrimDef {
                    name: unraw(stringify!($name)),
                    args: &[$(stringify!($arg)),*],
                    doc: concat!($($doc, "\n"),*),
                    class: Class::Elementwise {
                        types: Types::$types,
                        lane: LaneOp::$lane,
                        keeps: kept(Types::$types, LaneOp::$lane),
                        partials: $partials,
                    },
                    cost: Cost::of(LaneOp::$lane),
                    onnx: $onnx,
                    wgsl: $wgsl,
                    numpy: $numpy,
                    samples: Samples::Intervals(&$samples),
                };
                Prim(&DEF)
            };
        )*

        /// The primitives of this file.
        pub(super) fn entries() -> &'static [Prim] {
            &[$($NAME),*]
        }

        /// Calls a macro with `NAME name(args) doc;` of every elementwise primitive.
        #[macro_export]
        macro_rules! for_each_elementwise {
            ($d callback:path) => {
                $d callback! { $( $NAME $name($($arg),*) concat!($($doc, "\n"),*); )* }
            };
        }
    };
}

/// `where` is a keyword of Rust, so its entry is written `r#where`.
pub(super) const fn unraw(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// Linear and general entries: the class is spelled out with its own fields.
macro_rules! primitives {
    ($(
        $(#[doc = $doc:literal])*
        $NAME:ident $name:ident($($arg:literal),*) {
            class: $class:expr,
            cost: $cost:ident,
            onnx: $onnx:expr,
            wgsl: $wgsl:expr,
            numpy: $numpy:literal,
            samples: $samples:expr,
        }
    )*) => {
        $(
            $(#[doc = $doc])*
            pub const $NAME: Prim = {
                static DEF: PrimDef = PrimDef {
                    name: stringify!($name),
                    args: &[$($arg),*],
                    doc: concat!($($doc, "\n"),*),
                    class: $class,
                    cost: Cost::$cost,
                    onnx: $onnx,
                    wgsl: $wgsl,
                    numpy: $numpy,
                    samples: $samples,
                };
                Prim(&DEF)
            };
        )*

        /// The primitives of this file.
        pub(super) fn entries() -> &'static [Prim] {
            &[$($NAME),*]
        }
    };
}
