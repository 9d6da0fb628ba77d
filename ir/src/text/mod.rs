//! What the text forms of both IR levels share: tokens, errors with places, operands and attributes.
//!
//! A text is ASCII outside strings and comments. `;` starts a comment that ends with its line; white space only
//! separates tokens.

mod attr;
mod body;
mod cursor;
mod error;
mod lex;
mod near;
mod table;
mod tensor;

pub use attr::{Attr, ReadAttr, print_record, read_field};
pub use body::{BodyReader, OpReader, Operand, OperandRef, print_body};
pub use cursor::{Cursor, quote};
pub use error::{ParseError, SyntaxError};
pub use lex::{Kind, PAIRS, Span, Token, is_word};
pub use near::nearest;
pub(crate) use table::op_table;
pub use tensor::{is_symbol, read_dim, read_format, read_shape, read_type};
