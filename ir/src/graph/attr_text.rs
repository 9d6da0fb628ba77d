//! Text form of the graph ops' own attribute types, and of a value as an operand.

use super::attrs::{Engram, Rope, Round, Yarn};
use super::module::Value;
use crate::text::{
    Attr, Cursor, OpReader, Operand, OperandRef, ReadAttr, SyntaxError, print_record, read_field,
};
use std::fmt;

impl Operand<Value> for Value {
    fn as_operand(&self) -> OperandRef<'_, Value> {
        OperandRef::One(*self)
    }
    fn map_values(&mut self, f: &mut dyn FnMut(Value) -> Value) {
        *self = f(*self);
    }
    fn read<R: OpReader<Value>>(name: &'static str, r: &mut R) -> Result<Self, R::Error> {
        r.value(name)
    }
}

impl Attr for Round {
    fn print(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        f.write_str(match self {
            Round::None => "none",
            Round::Bf16 => "bf16",
        })
    }
}

impl ReadAttr for Round {
    fn read(c: &mut Cursor<'_>) -> Result<Self, SyntaxError> {
        if c.eat("none") {
            Ok(Round::None)
        } else if c.eat("bf16") {
            Ok(Round::Bf16)
        } else {
            Err(c.expected("`none` or `bf16`"))
        }
    }
}

impl Attr for Rope {
    fn print(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        let Rope { dim, theta, yarn } = self;
        print_record(f, &[("dim", dim), ("theta", theta), ("yarn", yarn)])
    }
}

impl ReadAttr for Rope {
    fn read(c: &mut Cursor<'_>) -> Result<Self, SyntaxError> {
        let dim = read_field(c, true, "dim")?;
        let theta = read_field(c, false, "theta")?;
        let yarn = read_field(c, false, "yarn")?;
        c.expect("}")?;
        Ok(Rope { dim, theta, yarn })
    }
}

impl Attr for Yarn {
    fn print(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        let Yarn { factor, beta_fast, beta_slow, original } = self;
        print_record(
            f,
            &[("factor", factor), ("beta_fast", beta_fast), ("beta_slow", beta_slow), ("original", original)],
        )
    }
}

impl ReadAttr for Yarn {
    fn read(c: &mut Cursor<'_>) -> Result<Self, SyntaxError> {
        let factor = read_field(c, true, "factor")?;
        let beta_fast = read_field(c, false, "beta_fast")?;
        let beta_slow = read_field(c, false, "beta_slow")?;
        let original = read_field(c, false, "original")?;
        c.expect("}")?;
        Ok(Yarn { factor, beta_fast, beta_slow, original })
    }
}

impl Attr for Engram {
    fn print(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        let Engram { multipliers, primes, pad_token } = self;
        print_record(f, &[("multipliers", multipliers), ("primes", primes), ("pad_token", pad_token)])
    }
}

impl ReadAttr for Engram {
    fn read(c: &mut Cursor<'_>) -> Result<Self, SyntaxError> {
        let multipliers = read_field(c, true, "multipliers")?;
        let primes = read_field(c, false, "primes")?;
        let pad_token = read_field(c, false, "pad_token")?;
        c.expect("}")?;
        Ok(Engram { multipliers, primes, pad_token })
    }
}
