//! Machine descriptions: what memories hold and how slots lie in them.

pub mod sm100;
