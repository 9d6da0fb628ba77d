//! The verifier of Tile IR: every rule of the level, all faults at once.
//!
//! It enforces, for any kernel whatever its origin, each [`Rule`]:
//!
//! * `names`: parameters and rings share one set of names, roles and axes have theirs; all are words;
//! * `type`: parameter types are well formed; panels are only read;
//! * `symbol`: every symbol occurs in the shape of a parameter, so a run can bind it;
//! * `grid`: tiles of an axis cover at least one element;
//! * `ring`: slots have a shape and a format that their class holds, a ring has a slot;
//! * `path`: the roles of a ring's path exist and are different;
//! * `role`: there is a role;
//! * `nesting`: blocks are at most 32 deep;
//! * `numbering`: values are numbered in text order, parameters and rings first;
//! * `scope`: a value is used by the role that defines it, after its definition and inside the block that holds it;
//! * `operands`, `result`: the typing rule of each op (see the op table);
//! * `loop`: bounds and conditions are indices, steps at least 1;
//! * `unit`: copies run in copy and vector roles, matrix ops in matrix and vector roles, tiles are a vector role's;
//! * `shared`: a parameter that a role writes belongs to that role alone;
//! * `unwritten`: a parameter declared `write` or `update` is written;
//! * `path-order`: the first role of a path acquires, later ones take; the last releases, earlier ones pass;
//! * `owned`: a slot is used only while its role holds it, and given away once;
//! * `returned`: a slot is given away in the block that took it, before that block ends;
//! * `alias`: an op does not write the slot that it reads;
//! * `target`: the machine has the kernel's ops, layouts, products and features, and slots have a width that it knows;
//! * `warps`: copy and matrix roles of SM100 are one warp, roles on accumulators whole warpgroups; orders of sums have a
//!   binary tree;
//! * `cluster`: one core or a pair works on a tile; slots that a pair shares need a pair, and rows that halve;
//! * `capacity`: slots, accumulators, threads and registers fit the machine's memories (see [`crate::machine`]);
//! * `grouped`: one axis at most is grouped, by a list of i32 that is only read;
//! * `shared-slot`: of several roles at a station the first ones fill different parts of the slot, later ones only read it;
//! * `order`: the order of a sum depends neither on the number of rows nor on a row's place among them;
//! * `progress`: there is an order in which the roles run to their ends, whatever the trip counts (see [`sequence`]). It
//!   covers slots that are returned: whoever returns one finds that the station before takes it again.
//!
//! Where numbering or nesting is broken only declarations are checked beside it, and progress is looked for
//! only where nothing else is wrong.

mod capacity;
mod declarations;
mod order;
mod ownership;
mod sharing;
mod statements;
mod target;
mod touched;
mod units;
mod views;

use super::kernel::{Kernel, Stmt};
use super::print::{print_axis, print_param, print_ring, print_stmt};
use super::sequence::sequence;
use crate::verified::Verified;
use std::fmt;

/// Deepest nesting of blocks, the body of a role being the first.
pub const MAX_NESTING: usize = 32;

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// A rule of Tile IR.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule { $($(#[$doc])* $name,)* }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Rule] = &[$(Rule::$name),*];

            /// The rule's name in reports.
            pub fn name(self) -> &'static str {
                match self { $(Rule::$name => $text),* }
            }
        }
    };
}

rules! {
    /// Names are words, unique among parameters and rings, among roles, among axes.
    Names = "names";
    /// Types of parameters are well formed; a parameter in panels is only read.
    Type = "type";
    /// A symbol occurs in the shape of a parameter.
    Symbol = "symbol";
    /// A tile of an axis covers at least one element.
    Grid = "grid";
    /// A ring has slots with a shape and a format that its class holds.
    Ring = "ring";
    /// A ring's path has roles of the kernel, each once.
    Path = "path";
    /// A kernel has a role.
    Role = "role";
    /// Blocks are at most [`MAX_NESTING`] deep.
    Nesting = "nesting";
    /// Values are numbered in text order.
    Numbering = "numbering";
    /// A value is used where it is visible.
    Scope = "scope";
    /// Operands and attributes fit the op.
    Operands = "operands";
    /// A result is there if the op has one, and of the type that follows from the operands.
    Result = "result";
    /// Loops have index bounds and a step, conditions are indices.
    Loop = "loop";
    /// An op runs in a kind of role that has the hardware for it.
    Unit = "unit";
    /// A parameter that a role writes belongs to that role alone.
    Shared = "shared";
    /// A parameter to be written is written.
    Unwritten = "unwritten";
    /// Slots go round their path in its order.
    PathOrder = "path-order";
    /// A slot is used only by the role that holds it.
    Owned = "owned";
    /// A slot is given away before the block ends that took it.
    Returned = "returned";
    /// An op does not write the slot that it reads.
    Alias = "alias";
    /// The machine has what the kernel asks for.
    Target = "target";
    /// Roles have as many warps as their unit, and sums an order.
    Warps = "warps";
    /// Cores work on tiles alone or in pairs.
    Cluster = "cluster";
    /// Slots, threads and registers fit the machine.
    Capacity = "capacity";
    /// An axis is grouped by a list of borders.
    Grouped = "grouped";
    /// Roles that hold a slot together do not disturb each other.
    SharedSlot = "shared-slot";
    /// The order of a sum is the row's own.
    Order = "order";
    /// The roles run to their ends in some order.
    Progress = "progress";
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where in a kernel a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The kernel as a whole.
    Kernel,
    /// A parameter, by its number.
    Param(usize),
    /// A grid axis, by its number.
    Axis(usize),
    /// A ring, by its number.
    Ring(usize),
    /// A role as a whole, by its number.
    Role(usize),
    /// A statement, by its role and its number in the role's text, from 0.
    Stmt {
        /// The role.
        role: usize,
        /// The statement.
        number: usize,
    },
}

/// One fault of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The rule that is broken.
    pub rule: Rule,
    /// Where.
    pub place: Place,
    /// Name of the role, for places in roles; else empty.
    pub role: String,
    /// What is wrong and what to do.
    pub message: String,
    /// The line at fault in the text form; empty for the kernel or a role as a whole.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Kernel => f.write_str("kernel")?,
            Place::Param(i) => write!(f, "parameter {i}")?,
            Place::Axis(i) => write!(f, "axis {i}")?,
            Place::Ring(i) => write!(f, "ring {i}")?,
            Place::Role(_) => write!(f, "role {}", self.role)?,
            Place::Stmt { role: _, number } => write!(f, "role {}, statement {number}", self.role)?,
        }
        write!(f, ": {} [{}]", self.message, self.rule)?;
        if self.text.is_empty() { Ok(()) } else { write!(f, "\n    {}", self.text) }
    }
}

/// All faults of a kernel, by place and then by rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct VerifyErrors {
    /// The kernel's name.
    pub kernel: String,
    /// The faults; at least one.
    pub faults: Vec<Fault>,
}

impl fmt::Display for VerifyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.faults.len();
        write!(f, "kernel @{}: {n} {}", self.kernel, if n == 1 { "fault" } else { "faults" })?;
        for fault in &self.faults {
            write!(f, "\n{fault}")?;
        }
        Ok(())
    }
}

/// Checks every rule of the level and marks the kernel as verified.
///
/// # Errors
/// All faults, by place and then by rule.
pub fn verify(kernel: Kernel) -> Result<Verified<Kernel>, VerifyErrors> {
    let mut report = Report { kernel: &kernel, faults: Vec::new() };
    declarations::check(&mut report);
    if let Some(types) = statements::number(&mut report) {
        statements::check(&mut report, &types);
        views::check(&mut report);
        ownership::check(&mut report);
        units::check(&mut report);
        capacity::check(&mut report);
        target::check(&mut report, &types);
        sharing::check(&mut report, &types);
        order::check(&mut report);
        if report.faults.is_empty()
            && let Err(fault) = sequence(&kernel)
        {
            report.add(Rule::Progress, Place::Kernel, fault.to_string());
        }
    }
    let mut faults = report.faults;
    faults.sort_by_key(|f| (f.place, f.rule));
    if faults.is_empty() {
        return Ok(Verified::new(kernel));
    }
    Err(VerifyErrors { kernel: kernel.name, faults })
}

/// Collects faults of one kernel.
struct Report<'k> {
    kernel: &'k Kernel,
    faults: Vec<Fault>,
}

impl<'k> Report<'k> {
    /// A fault outside the roles' statements.
    fn add(&mut self, rule: Rule, place: Place, message: String) {
        let kernel = self.kernel;
        let text = match place {
            Place::Kernel | Place::Role(_) | Place::Stmt { .. } => String::new(),
            Place::Param(i) => kernel.params.get(i).map(print_param).unwrap_or_default(),
            Place::Axis(i) => kernel.grid.get(i).map(|a| print_axis(kernel, a)).unwrap_or_default(),
            Place::Ring(i) => kernel.rings.get(i).map(|r| print_ring(kernel, r)).unwrap_or_default(),
        };
        let role = match place {
            Place::Role(i) => self.role_name(i),
            Place::Kernel | Place::Param(_) | Place::Axis(_) | Place::Ring(_) | Place::Stmt { .. } => {
                String::new()
            }
        };
        self.faults.push(Fault { rule, place, role, message, text });
    }
    fn role_name(&self, role: usize) -> String {
        self.kernel.roles.get(role).map(|r| r.name.clone()).unwrap_or_default()
    }
    /// A fault of a statement.
    fn add_at(&mut self, rule: Rule, at: At<'k>, message: String) {
        let role = self.role_name(at.role);
        let place = Place::Stmt { role: at.role, number: at.number };
        self.faults.push(Fault { rule, place, role, message, text: print_stmt(self.kernel, at.stmt) });
    }
}

/// A statement with its place.
#[derive(Clone, Copy)]
struct At<'k> {
    role: usize,
    number: usize,
    stmt: &'k Stmt,
}

/// What a walk over a role meets.
enum Event<'k> {
    /// A statement; the body of a loop or condition follows.
    Stmt(At<'k>),
    /// The end of the body of this loop or condition, or of the role (`None`).
    End(Option<At<'k>>),
}

/// Calls `visit` for the statements of a role in text order, with the nesting of the block that holds them (1 for the
/// role's own body), and at the end of each block. Bodies at nesting `limit` are not entered.
fn walk<'k>(kernel: &'k Kernel, role: usize, limit: usize, mut visit: impl FnMut(usize, Event<'k>)) {
    let Some(body) = kernel.roles.get(role).map(|r| &r.body) else { return };
    let mut open: Vec<(Option<At<'k>>, std::slice::Iter<'k, Stmt>)> = vec![(None, body.iter())];
    let mut number = 0;
    while let Some((head, block)) = open.last_mut() {
        let head = *head;
        let Some(stmt) = block.next() else {
            let depth = open.len();
            open.pop();
            visit(depth, Event::End(head));
            continue;
        };
        let at = At { role, number, stmt };
        number += 1;
        visit(open.len(), Event::Stmt(at));
        match stmt {
            Stmt::For { body, .. } | Stmt::If { body, .. } if open.len() < limit => {
                open.push((Some(at), body.iter()));
            }
            Stmt::Op(_) | Stmt::For { .. } | Stmt::If { .. } => {}
        }
    }
}
