//! One order in which a single thread can run all roles of a kernel; that there is one is the proof of progress.
//!
//! Roles run as coroutines, each until it waits for a slot. Loops (and conditions) that move slots run whole where
//! that leaves all rings as they were; otherwise those of several roles with equal bounds run together, one iteration
//! of each in turn, which again must leave all rings as they were. So one pass over the text proves every trip
//! count. Rings being queues, no other schedule of the roles can get stuck where this one does not.
//!
//! A free slot is as good as any other, so the first free one is taken, and each slot value stands for one slot.

use super::expr::{Expr, Exprs};
use super::kernel::{Block, Kernel, Node, Stmt, Type, Value};
use super::ops::Op;
use super::print::print_stmt;
use super::rings::{RingState, moves_slots};

/// The slot that a slot value stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotRef {
    /// Index into [`Kernel::rings`].
    pub ring: usize,
    /// Number of the slot, below the ring's depth.
    pub slot: usize,
}

/// All roles of a kernel as one program.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    /// The statements without those that move slots. Values keep their numbers, but where loops were
    /// merged the first role's counter stands for the others'.
    pub body: Block,
    /// By value number: the slot of every slot value that `body` uses.
    pub slots: Vec<Option<SlotRef>>,
}

impl Sequence {
    /// The slot that `v` stands for.
    pub fn slot(&self, v: Value) -> Option<SlotRef> {
        self.slots.get(v.index()).copied().flatten()
    }
}

/// A role that cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Name of the role.
    pub role: String,
    /// The statement it waits at.
    pub statement: String,
    /// What it waits for.
    pub on: String,
}

fn list(waits: &[Wait]) -> String {
    let lines = waits.iter().map(|w| format!("\n  role {} at `{}` waits for {}", w.role, w.statement, w.on));
    lines.collect()
}

/// Why the roles have no order.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SequenceFault {
    /// Every role that is not done waits for another.
    #[error(
        "deadlock: no role can go on; take and pass slots in one order in all roles, or deepen a ring{}",
        list(.waits)
    )]
    Deadlock {
        /// The roles that are not done.
        waits: Vec<Wait>,
    },
    /// Roles move slots in loops or conditions that do not match.
    #[error(
        "rate mismatch: no loop or condition can run on its own or together with its like in another role; give the \
         roles on a ring the same loops, with equal bounds{}",
        list(.waits)
    )]
    Bounds {
        /// The roles that are not done.
        waits: Vec<Wait>,
    },
    /// Roles move different numbers of slots.
    #[error(
        "rate mismatch on ring %{ring}: {place} adds and takes different numbers of slots; let every role on its path \
         take as many slots as are passed to it"
    )]
    Rate {
        /// Name of the ring.
        ring: String,
        /// Where: an iteration of a loop, a condition or the whole program.
        place: String,
    },
    /// A statement moves a slot that its role does not hold.
    #[error("role {role}: `{statement}` moves a slot that the role does not hold")]
    Unowned {
        /// Name of the role.
        role: String,
        /// The statement.
        statement: String,
    },
    /// The search for an order took too many steps.
    #[error("the roles are too entangled to find an order in {STEPS} steps; merge roles or loops")]
    Entangled,
}

/// Statements tried before the search is given up.
const STEPS: usize = 1 << 20;
/// Loops of which all subsets are tried; of more, only all together.
const SUBSETS: usize = 6;

/// The order of all roles of `kernel`, which has passed the other rules of the verifier.
///
/// # Errors
/// See [`SequenceFault`].
pub fn sequence(kernel: &Kernel) -> Result<Sequence, SequenceFault> {
    let mut merger = Merger {
        kernel,
        rings: kernel.rings.iter().map(RingState::new).collect(),
        exprs: Exprs::default(),
        slots: Vec::new(),
        renamed: Vec::new(),
        steps: 0,
    };
    let threads =
        kernel.roles.iter().enumerate().map(|(role, r)| Thread { role, block: &r.body, at: 0 }).collect();
    let body = merger.run(threads)?;
    if let Some(ring) = kernel.rings.iter().zip(&merger.rings).find(|(_, s)| !s.all_free()) {
        return Err(SequenceFault::Rate { ring: ring.0.name.clone(), place: "the whole program".into() });
    }
    Ok(Sequence { body, slots: merger.slots })
}

/// A role's place in one of its blocks.
struct Thread<'k> {
    role: usize,
    block: &'k [Stmt],
    at: usize,
}

impl<'k> Thread<'k> {
    fn next(&self) -> Option<&'k Stmt> {
        self.block.get(self.at)
    }
}

struct Merger<'k> {
    kernel: &'k Kernel,
    rings: Vec<RingState>,
    exprs: Exprs,
    slots: Vec<Option<SlotRef>>,
    /// What stands for a counter of a merged loop.
    renamed: Vec<Option<Value>>,
    steps: usize,
}

impl<'k> Merger<'k> {
    /// Runs blocks of several roles to their ends.
    fn run(&mut self, mut threads: Vec<Thread<'k>>) -> Result<Block, SequenceFault> {
        let mut out = Vec::new();
        loop {
            let mut moved = false;
            for thread in &mut threads {
                while let Some(stmt) = thread.next() {
                    if !self.step(thread.role, stmt, &mut out)? {
                        break;
                    }
                    thread.at += 1;
                    moved = true;
                }
            }
            if threads.iter().all(|t| t.next().is_none()) {
                return Ok(out);
            }
            if !moved {
                self.together(&mut threads, &mut out)?;
            }
        }
    }

    /// Runs one statement of one role; false if it has to wait.
    fn step(&mut self, role: usize, stmt: &'k Stmt, out: &mut Block) -> Result<bool, SequenceFault> {
        self.steps += 1;
        if self.steps > STEPS {
            return Err(SequenceFault::Entangled);
        }
        match stmt {
            Stmt::Op(node) => match &node.op {
                Op::Acquire { ring } | Op::Take { ring } => Ok(self.get(role, *ring, node)),
                Op::Pass { slot } | Op::Release { slot } | Op::Return { slot } => {
                    let back = matches!(node.op, Op::Return { .. });
                    self.give(role, *slot, back).ok_or_else(|| SequenceFault::Unowned {
                        role: self.role_name(role),
                        statement: print_stmt(self.kernel, stmt),
                    })?;
                    Ok(true)
                }
                _ => {
                    if let Some((v, Type::Index)) = &node.result {
                        self.exprs.define(*v, &node.op, self.kernel);
                    }
                    out.push(self.renamed(stmt));
                    Ok(true)
                }
            },
            Stmt::For { body, .. } | Stmt::If { body, .. } => {
                if !moves_slots(body) {
                    out.push(self.renamed(stmt));
                    return Ok(true);
                }
                let before = self.rings.clone();
                self.enter(&[stmt]);
                match self.run(vec![Thread { role, block: body, at: 0 }]) {
                    Ok(inner) if self.rings == before => {
                        out.push(self.with_body(stmt, inner));
                        Ok(true)
                    }
                    Err(SequenceFault::Entangled) => Err(SequenceFault::Entangled),
                    Ok(_) | Err(_) => {
                        self.rings = before;
                        Ok(false)
                    }
                }
            }
        }
    }

    /// Runs equal loops or conditions that several roles wait at together; an error if that is not possible.
    fn together(&mut self, threads: &mut [Thread<'k>], out: &mut Block) -> Result<(), SequenceFault> {
        let mut fault = None;
        let mut tried: Vec<Key> = Vec::new();
        for i in 0..threads.len() {
            let Some(key) = threads[i].next().and_then(|s| self.key(s)) else { continue };
            if tried.contains(&key) {
                continue;
            }
            let group: Vec<usize> = (i..threads.len())
                .filter(|j| threads[*j].next().and_then(|s| self.key(s)).as_ref() == Some(&key))
                .collect();
            tried.push(key);
            for part in parts(&group) {
                match self.fuse(threads, &part) {
                    Ok(stmt) => {
                        out.push(stmt);
                        part.iter().for_each(|j| threads[*j].at += 1);
                        return Ok(());
                    }
                    Err(SequenceFault::Entangled) => return Err(SequenceFault::Entangled),
                    Err(f) => {
                        fault.get_or_insert(f);
                    }
                }
            }
        }
        // What went wrong inside the largest group says more than that its loops wait.
        Err(fault.unwrap_or_else(|| self.stuck(threads)))
    }

    /// One statement from the statements that the `part` of the threads wait at.
    fn fuse(&mut self, threads: &[Thread<'k>], part: &[usize]) -> Result<Stmt, SequenceFault> {
        let stmts: Vec<&'k Stmt> = part.iter().filter_map(|j| threads[*j].next()).collect();
        let before = self.rings.clone();
        self.enter(&stmts);
        let bodies = part.iter().zip(&stmts).filter_map(|(j, stmt)| match stmt {
            Stmt::For { body, .. } | Stmt::If { body, .. } => {
                Some(Thread { role: threads[*j].role, block: body, at: 0 })
            }
            Stmt::Op(_) => None,
        });
        let result = self.run(bodies.collect());
        let after = std::mem::replace(&mut self.rings, before);
        let inner = result?;
        if let Some(i) = (0..after.len()).find(|i| after[*i] != self.rings[*i]) {
            return Err(SequenceFault::Rate {
                ring: self.kernel.rings[i].name.clone(),
                place: match stmts[0] {
                    Stmt::For { .. } => format!("an iteration of `{}`", print_stmt(self.kernel, stmts[0])),
                    Stmt::If { .. } | Stmt::Op(_) => format!("`{}`", print_stmt(self.kernel, stmts[0])),
                },
            });
        }
        Ok(self.with_body(stmts[0], inner))
    }

    /// Makes the counters of loops that run together one.
    fn enter(&mut self, stmts: &[&'k Stmt]) {
        let id = self.exprs.fresh();
        let mut first = None;
        for stmt in stmts {
            if let Stmt::For { var, .. } = stmt {
                let shown = *first.get_or_insert(*var);
                self.exprs.set(*var, id);
                set(&mut self.renamed, *var, shown);
            }
        }
    }

    /// What two statements must share to run together.
    fn key(&self, stmt: &Stmt) -> Option<Key> {
        match stmt {
            Stmt::For { lo, hi, step, body, .. } if moves_slots(body) => {
                Some(Key::For(self.exprs.of(*lo)?, self.exprs.of(*hi)?, *step))
            }
            Stmt::If { cond, body } if moves_slots(body) => Some(Key::If(self.exprs.of(*cond)?)),
            Stmt::Op(_) | Stmt::For { .. } | Stmt::If { .. } => None,
        }
    }

    /// `acquire` or `take`; false if there is no slot.
    fn get(&mut self, role: usize, ring: Value, node: &Node) -> bool {
        let Some(i) = ring.index().checked_sub(self.kernel.params.len()) else { return false };
        let (Some(state), Some(ring)) = (self.rings.get_mut(i), self.kernel.rings.get(i)) else {
            return false;
        };
        let slot = match (&node.op, ring.seat(role)) {
            (Op::Acquire { .. }, Some(seat)) if seat.station == 0 => state.acquire(seat),
            (Op::Take { .. }, Some(seat)) => state.take(seat),
            (_, _) => None,
        };
        match (slot, &node.result) {
            (Some(slot), Some((v, _))) => {
                set(&mut self.slots, *v, SlotRef { ring: i, slot });
                true
            }
            (_, _) => false,
        }
    }

    /// `pass` or `release`: from the last station of the path a slot becomes free, from others it goes on; `return`: it
    /// goes back.
    fn give(&mut self, role: usize, slot: Value, back: bool) -> Option<()> {
        let SlotRef { ring, slot } = self.slots.get(slot.index()).copied().flatten()?;
        let seat = self.kernel.rings.get(ring)?.seat(role)?;
        let state = self.rings.get_mut(ring)?;
        if back { state.back(seat, slot) } else { state.give(seat, slot) }
    }

    /// A copy of a statement with the counters of merged loops replaced.
    fn renamed(&self, stmt: &Stmt) -> Stmt {
        match stmt {
            Stmt::Op(node) => {
                let mut node = node.clone();
                node.op.map_operands(|v| self.name(v));
                Stmt::Op(node)
            }
            Stmt::For { body, .. } | Stmt::If { body, .. } => {
                self.with_body(stmt, body.iter().map(|s| self.renamed(s)).collect())
            }
        }
    }

    fn with_body(&self, stmt: &Stmt, body: Block) -> Stmt {
        match stmt {
            Stmt::Op(_) => stmt.clone(),
            Stmt::For { var, lo, hi, step, body: _ } => {
                Stmt::For { var: *var, lo: self.name(*lo), hi: self.name(*hi), step: *step, body }
            }
            Stmt::If { cond, body: _ } => Stmt::If { cond: self.name(*cond), body },
        }
    }

    fn name(&self, v: Value) -> Value {
        self.renamed.get(v.index()).copied().flatten().unwrap_or(v)
    }

    fn role_name(&self, role: usize) -> String {
        self.kernel.roles[role].name.clone()
    }

    /// The fault of roles of which none can go on.
    fn stuck(&self, threads: &[Thread<'k>]) -> SequenceFault {
        let mut loops = false;
        let mut waits = Vec::new();
        for thread in threads {
            let Some(stmt) = thread.next() else { continue };
            let on = match stmt {
                Stmt::Op(node) => self.waits_for(thread.role, &node.op),
                Stmt::For { .. } => {
                    loops = true;
                    "a role with a loop of the same bounds".to_owned()
                }
                Stmt::If { .. } => {
                    loops = true;
                    "a role with the same condition".to_owned()
                }
            };
            let statement = print_stmt(self.kernel, stmt);
            waits.push(Wait { role: self.role_name(thread.role), statement, on });
        }
        if loops { SequenceFault::Bounds { waits } } else { SequenceFault::Deadlock { waits } }
    }

    fn waits_for(&self, role: usize, op: &Op) -> String {
        let (Op::Acquire { ring } | Op::Take { ring }) = op else { return "nothing".to_owned() };
        let Some(ring) = self.kernel.ring_of(*ring) else { return "an unknown ring".to_owned() };
        let before = ring.station(role).and_then(|p| p.checked_sub(1)).and_then(|p| ring.path.get(p));
        match (op, before.map(|hop| hop.roles.as_slice())) {
            (Op::Take { .. }, Some([before])) => {
                format!("a slot of %{} from role {}", ring.name, self.role_name(*before))
            }
            (Op::Take { .. }, Some(before)) => {
                let names: Vec<String> = before.iter().map(|r| self.role_name(*r)).collect();
                format!("a slot of %{} from roles {}", ring.name, names.join(" and "))
            }
            (Op::Take { .. }, None) => format!("a slot of %{} that comes back", ring.name),
            (_, _) => format!("a free slot of %{} (depth {})", ring.name, ring.depth),
        }
    }
}

/// Bounds of a loop, or a condition, as expressions.
#[derive(PartialEq, Eq)]
enum Key {
    For(Expr, Expr, usize),
    If(Expr),
}

/// Sets `list[v]`, growing the list.
fn set<T: Clone>(list: &mut Vec<Option<T>>, v: Value, item: T) {
    if list.len() <= v.index() {
        list.resize(v.index() + 1, None);
    }
    list[v.index()] = Some(item);
}

/// Subsets of two or more, the largest first.
fn parts(group: &[usize]) -> Vec<Vec<usize>> {
    if group.len() > SUBSETS {
        return vec![group.to_vec()];
    }
    let mut all: Vec<Vec<usize>> = (0u32..1 << group.len())
        .map(|bits| (0..group.len()).filter(|i| bits >> i & 1 == 1).map(|i| group[i]).collect())
        .filter(|part: &Vec<usize>| part.len() >= 2)
        .collect();
    // Stable, so that equal sizes keep one order.
    all.sort_by_key(|part| std::cmp::Reverse(part.len()));
    all
}
