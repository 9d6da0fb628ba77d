//! SM100 schedules of selections and long rows, on the Tile IR interpreter against the oracle.

mod case;
mod long_rows;
mod select;
