//! Builds kernels: values are typed as they are made, and numbered canonically at the end.
//!
//! A statement that breaks a typing rule is left out and remembered, and [`KernelBuilder::finish`] reports the first
//! one, so that schedules read as straight programs. What only the whole kernel shows (ownership, progress) is
//! left to the verifier.

use super::fault::TypeFault;
use super::kernel::{
    Access, Axis, Block, Class, Hop, Kernel, Lanes, Node, Param, Ring, Role, RoleKind, Scope as RingScope,
    SlotType, Stmt, Target, Type, Value,
};
use super::ops::Op;
use super::print::{Shown, line, write_op};
use super::typing::{Scope, infer};
use crate::types::{Dim, TensorType};

/// A statement that does not fit its operands.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("kernel {kernel}, role {role}: {statement}: {fault}")]
pub struct BuildFault {
    /// Kernel under construction.
    pub kernel: String,
    /// Its role.
    pub role: String,
    /// The statement, with the builder's own numbers for values.
    pub statement: String,
    /// What is wrong with it.
    pub fault: Box<TypeFault>,
}

/// What a value is, while the kernel grows.
#[derive(Clone, Debug)]
enum Entry {
    Param(usize),
    Ring(usize),
    Plain(Type),
    /// The result of a statement at fault; statements that use it are left out silently.
    Unknown,
}

/// The threads that run a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// Warps of 32 threads.
    pub warps: usize,
    /// Registers of a thread, if the kernel moves registers between roles.
    pub registers: Option<usize>,
    /// Order of sums along columns.
    pub lanes: Lanes,
}

impl Default for Threads {
    fn default() -> Self {
        Threads { warps: 1, registers: None, lanes: Lanes::CANONICAL }
    }
}

/// Builds one kernel.
#[derive(Debug)]
pub struct KernelBuilder {
    kernel: Kernel,
    entries: Vec<Entry>,
    fault: Option<BuildFault>,
}

impl Scope for KernelBuilder {
    fn ty(&self, v: Value) -> Option<&Type> {
        match self.entries.get(v.index())? {
            Entry::Param(_) => Some(&Type::View),
            Entry::Ring(_) => Some(&Type::Ring),
            Entry::Plain(ty) => Some(ty),
            Entry::Unknown => None,
        }
    }
    fn param(&self, v: Value) -> Option<&Param> {
        match self.entries.get(v.index())? {
            Entry::Param(i) => self.kernel.params.get(*i),
            Entry::Ring(_) | Entry::Plain(_) | Entry::Unknown => None,
        }
    }
    fn ring(&self, v: Value) -> Option<&Ring> {
        match self.entries.get(v.index())? {
            Entry::Ring(i) => self.kernel.rings.get(*i),
            Entry::Param(_) | Entry::Plain(_) | Entry::Unknown => None,
        }
    }
    fn grid(&self) -> &[Axis] {
        &self.kernel.grid
    }
}

impl KernelBuilder {
    /// An empty kernel called `name`.
    pub fn new(name: impl Into<String>) -> Self {
        let kernel = Kernel {
            name: name.into(),
            target: Target::Cpu,
            cluster: 1,
            persistent: None,
            params: Vec::new(),
            grid: Vec::new(),
            rings: Vec::new(),
            roles: Vec::new(),
        };
        KernelBuilder { kernel, entries: Vec::new(), fault: None }
    }
    fn define(&mut self, entry: Entry) -> Value {
        self.entries.push(entry);
        Value(self.entries.len() as u32 - 1)
    }
    /// Adds a parameter.
    pub fn param(&mut self, name: impl Into<String>, ty: TensorType, access: Access) -> Value {
        self.kernel.params.push(Param { name: name.into(), ty, access });
        self.define(Entry::Param(self.kernel.params.len() - 1))
    }
    /// Adds a grid axis, inside those added before; gives its number, which `index.tile` takes.
    pub fn axis(&mut self, name: impl Into<String>, extent: impl Into<Dim>, tile: usize) -> usize {
        self.kernel.grid.push(Axis { name: name.into(), extent: extent.into(), tile, groups: None });
        self.kernel.grid.len() - 1
    }
    /// Adds a grouped grid axis, whose groups the parameter `offsets` borders; gives its number.
    pub fn grouped_axis(
        &mut self,
        name: impl Into<String>,
        extent: impl Into<Dim>,
        tile: usize,
        offsets: Value,
    ) -> usize {
        let axis = Axis { name: name.into(), extent: extent.into(), tile, groups: Some(offsets) };
        self.kernel.grid.push(axis);
        self.kernel.grid.len() - 1
    }
    /// Sets the machine that the kernel is written for.
    pub fn target(&mut self, target: Target) {
        self.kernel.target = target;
    }
    /// Lets `cores` cores (or pairs) take the tiles in turn.
    pub fn persistent(&mut self, cores: usize) {
        self.kernel.persistent = Some(cores);
    }
    /// Lets `cores` cores share each tile.
    pub fn cluster(&mut self, cores: usize) {
        self.kernel.cluster = cores;
    }
    /// Adds a ring. `path` numbers roles in the order in which they are (or will be) added.
    pub fn ring(
        &mut self,
        name: impl Into<String>,
        class: Class,
        slot: SlotType,
        depth: usize,
        path: &[usize],
    ) -> Value {
        let path = path.iter().map(|role| Hop::from(*role)).collect();
        self.ring_of(Ring { name: name.into(), class, slot, depth, scope: RingScope::Core, path })
    }
    /// Adds a ring with stations of several roles, or of another scope.
    pub fn ring_of(&mut self, ring: Ring) -> Value {
        self.kernel.rings.push(ring);
        self.define(Entry::Ring(self.kernel.rings.len() - 1))
    }
    /// Adds a role whose program `body` writes; gives what `body` gives.
    pub fn role<R>(
        &mut self,
        kind: RoleKind,
        name: impl Into<String>,
        body: impl FnOnce(&mut RoleBuilder<'_>) -> R,
    ) -> R {
        self.role_of(kind, name, Threads::default(), body)
    }
    /// Adds a role that several warps run.
    pub fn role_of<R>(
        &mut self,
        kind: RoleKind,
        name: impl Into<String>,
        threads: Threads,
        body: impl FnOnce(&mut RoleBuilder<'_>) -> R,
    ) -> R {
        let name = name.into();
        let mut role = RoleBuilder { kernel: self, role: name.clone(), open: vec![Vec::new()] };
        let given = body(&mut role);
        let body = role.open.pop().unwrap_or_default();
        let Threads { warps, registers, lanes } = threads;
        self.kernel.roles.push(Role { kind, name, warps, registers, lanes, body });
        given
    }
    /// Type of a value; `None` for the result of a statement at fault.
    pub fn ty(&self, v: Value) -> Option<&Type> {
        Scope::ty(self, v)
    }

    /// The kernel, values in canonical numbers.
    ///
    /// # Errors
    /// The first statement that did not fit its operands.
    pub fn finish(mut self) -> Result<Kernel, BuildFault> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let mut numbers = vec![Value(0); self.entries.len()];
        let params = self.kernel.params.len();
        for (entry, number) in self.entries.iter().zip(&mut numbers) {
            match entry {
                Entry::Param(i) => *number = Value(*i as u32),
                Entry::Ring(i) => *number = Value((params + i) as u32),
                Entry::Plain(_) | Entry::Unknown => {}
            }
        }
        for axis in &mut self.kernel.grid {
            axis.groups = axis.groups.map(|v| numbers[v.index()]);
        }
        let mut renumber = Renumber { numbers, next: (params + self.kernel.rings.len()) as u32 };
        self.kernel.roles.iter_mut().for_each(|r| renumber.block(&mut r.body));
        Ok(self.kernel)
    }
}

/// Gives values the canonical numbers, in text order.
struct Renumber {
    numbers: Vec<Value>,
    next: u32,
}

impl Renumber {
    fn define(&mut self, v: &mut Value) {
        self.numbers[v.index()] = Value(self.next);
        *v = Value(self.next);
        self.next += 1;
    }
    fn block(&mut self, block: &mut Block) {
        for stmt in block {
            match stmt {
                Stmt::Op(Node { op, result }) => {
                    op.map_operands(|v| self.numbers[v.index()]);
                    if let Some((v, ty)) = result {
                        if let Type::Slot { ring } = ty {
                            *ring = self.numbers[ring.index()];
                        }
                        self.define(v);
                    }
                }
                Stmt::For { var, lo, hi, step: _, body } => {
                    *lo = self.numbers[lo.index()];
                    *hi = self.numbers[hi.index()];
                    self.define(var);
                    self.block(body);
                }
                Stmt::If { cond, body } => {
                    *cond = self.numbers[cond.index()];
                    self.block(body);
                }
            }
        }
    }
}

/// Builds the program of one role; `for_` and `if_` nest. There is a method for each op, named after it.
#[derive(Debug)]
pub struct RoleBuilder<'k> {
    kernel: &'k mut KernelBuilder,
    role: String,
    /// Blocks under construction, the innermost last.
    open: Vec<Block>,
}

impl RoleBuilder<'_> {
    /// Type of a value; `None` for the result of a statement at fault.
    pub fn ty(&self, v: Value) -> Option<&Type> {
        self.kernel.ty(v)
    }
    /// Appends an op and gives its result, if it has one.
    pub fn emit(&mut self, op: Op) -> Option<Value> {
        if self.poisoned(&op.operands()) {
            return None;
        }
        match infer(&op, self.kernel) {
            Ok(ty) => {
                let result = ty.map(|ty| (self.kernel.define(Entry::Plain(ty.clone())), ty));
                let value = result.as_ref().map(|(v, _)| *v);
                self.push(Stmt::Op(Node { op, result }));
                value
            }
            Err(fault) => {
                let names = |v: Value| match (Scope::param(self.kernel, v), Scope::ring(self.kernel, v)) {
                    (Some(p), _) => Shown::Name(p.name.as_str()),
                    (None, Some(r)) => Shown::Name(r.name.as_str()),
                    (None, None) => Shown::Number(v),
                };
                let statement = line(|out| write_op(out, &op, &names));
                self.refuse(statement, fault);
                None
            }
        }
    }
    /// Appends an op that has a result, and gives it.
    pub(super) fn value(&mut self, op: Op) -> Value {
        match self.emit(op) {
            Some(v) => v,
            None => self.kernel.define(Entry::Unknown),
        }
    }
    /// `for i = lo, lo + step, … < hi`; `body` gets the counter. Gives what `body` gives.
    pub fn for_<R>(
        &mut self,
        lo: Value,
        hi: Value,
        step: usize,
        body: impl FnOnce(&mut Self, Value) -> R,
    ) -> R {
        self.expect_index("for", "lo", lo);
        self.expect_index("for", "hi", hi);
        let var = self.kernel.define(Entry::Plain(Type::Index));
        self.open.push(Vec::new());
        let given = body(self, var);
        let body = self.open.pop().unwrap_or_default();
        self.push(Stmt::For { var, lo, hi, step, body });
        given
    }
    /// Runs `body` where `cond` is not 0. Gives what `body` gives.
    pub fn if_<R>(&mut self, cond: Value, body: impl FnOnce(&mut Self) -> R) -> R {
        self.expect_index("if", "cond", cond);
        self.open.push(Vec::new());
        let given = body(self);
        let body = self.open.pop().unwrap_or_default();
        self.push(Stmt::If { cond, body });
        given
    }

    fn push(&mut self, stmt: Stmt) {
        match self.open.last_mut() {
            Some(block) => block.push(stmt),
            None => self.open.push(vec![stmt]),
        }
    }
    fn poisoned(&self, operands: &[Value]) -> bool {
        operands.iter().any(|v| matches!(self.kernel.entries.get(v.index()), Some(Entry::Unknown)))
    }
    fn expect_index(&mut self, statement: &str, operand: &'static str, v: Value) {
        let found = match self.kernel.ty(v) {
            Some(Type::Index) => return,
            None if self.poisoned(&[v]) => return,
            Some(Type::View) => "a parameter",
            Some(Type::Ring) => "a ring",
            Some(Type::Slot { .. }) => "a slot",
            Some(Type::Tile { .. }) => "a tile",
            None => "a value of another kernel",
        };
        let fault = TypeFault::Kind { operand, want: "an index", found: found.to_owned() };
        self.refuse(statement.to_owned(), fault);
    }
    fn refuse(&mut self, statement: String, fault: TypeFault) {
        let kernel = self.kernel.kernel.name.clone();
        self.kernel.fault.get_or_insert(BuildFault {
            kernel,
            role: self.role.clone(),
            statement,
            fault: Box::new(fault),
        });
    }
}
