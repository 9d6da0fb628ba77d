//! One tile: its roles as coroutines, whose turns a seed decides.

use super::block::Matrix;
use super::error::{Error, Fault};
use super::memory::View;
use super::rng::Rng;
use super::slots::RingSlots;
use crate::tile::print::print_stmt;
use crate::tile::{Block, Kernel, Op, SlotRef, Stmt, Value, Wait};
use crate::types::Bindings;
use std::rc::Rc;

/// Most statements a role runs in one turn.
const TURN: usize = 6;

/// What a value is while its role runs.
#[derive(Clone)]
pub(super) enum Held {
    Index(i64),
    Slot(SlotRef),
    Tile(Rc<Matrix>),
}

/// A block that a role is in.
struct Frame<'k> {
    block: &'k Block,
    next: usize,
    /// For a loop its counter, the counter's value, its end and its step.
    counter: Option<(Value, i64, i64, i64)>,
}

/// A role on its way through its program.
struct Thread<'k> {
    frames: Vec<Frame<'k>>,
    values: Vec<Option<Held>>,
}

/// What a statement did.
pub(super) enum Done {
    /// It ran.
    Yes,
    /// It has to wait for a slot.
    Wait,
}

/// Where a tile of the grid lies.
#[derive(Clone, Debug, Default)]
pub(super) struct TilePlace {
    /// First coordinates along the grid axes.
    pub(super) at: Vec<usize>,
    /// Along grouped axes the group's number and end.
    pub(super) groups: Vec<Option<(usize, usize)>>,
}

/// One tile in execution.
pub(super) struct Machine<'a, 'k> {
    pub(super) kernel: &'k Kernel,
    pub(super) bindings: &'a Bindings,
    pub(super) views: &'a mut Vec<View<'k>>,
    pub(super) rng: &'a mut Rng,
    /// First coordinates along the grid axes.
    pub(super) at: Vec<usize>,
    /// Along grouped axes the group's number and end.
    pub(super) groups: Vec<Option<(usize, usize)>>,
    /// Number of the tile.
    pub(super) tile: u32,
    pub(super) rings: Vec<RingSlots>,
    threads: Vec<Thread<'k>>,
}

impl<'a, 'k> Machine<'a, 'k> {
    pub(super) fn new(
        kernel: &'k Kernel,
        bindings: &'a Bindings,
        views: &'a mut Vec<View<'k>>,
        rng: &'a mut Rng,
        place: TilePlace,
        tile: u32,
    ) -> Result<Self, Error> {
        let TilePlace { at, groups } = place;
        let mut rings = Vec::new();
        for ring in &kernel.rings {
            let cols = ring.slot.cols.eval(bindings);
            let cols = cols.ok_or_else(|| Error::Size { what: format!("ring {}", ring.name) })?;
            rings.push(RingSlots::new(ring, cols));
        }
        let thread =
            |body| Thread { frames: vec![Frame { block: body, next: 0, counter: None }], values: Vec::new() };
        let threads = kernel.roles.iter().map(|r| thread(&r.body)).collect();
        Ok(Machine { kernel, bindings, views, rng, at, groups, tile, rings, threads })
    }

    /// Runs all roles to their ends.
    pub(super) fn run(&mut self) -> Result<(), Error> {
        let mut able: Vec<usize> = (0..self.threads.len()).collect();
        let mut waiting: Vec<usize> = Vec::new();
        while !able.is_empty() {
            let pick = self.rng.below(able.len());
            let role = able[pick];
            let turn = 1 + self.rng.below(TURN);
            for _ in 0..turn {
                let Some(stmt) = self.threads[role].next() else {
                    able.swap_remove(pick);
                    break;
                };
                let fault = |m: &Self, fault| Error::Statement {
                    tile: m.at.clone(),
                    role: m.kernel.roles[role].name.clone(),
                    statement: print_stmt(m.kernel, stmt),
                    fault: Box::new(fault),
                };
                match self.step(role, stmt) {
                    Ok(Done::Yes) => {
                        // Whoever waits for a slot may have got it.
                        able.append(&mut waiting);
                    }
                    Ok(Done::Wait) => {
                        self.threads[role].retry();
                        able.swap_remove(pick);
                        waiting.push(role);
                        break;
                    }
                    Err(f) => return Err(fault(self, f)),
                }
            }
            let (rings, views) = (&mut self.rings, &mut *self.views);
            for ring in rings {
                if let Err(fault) = ring.land_some(self.rng, views, self.tile) {
                    return Err(Error::Statement {
                        tile: self.at.clone(),
                        role: self.kernel.roles[role].name.clone(),
                        statement: "a copy under way".into(),
                        fault: Box::new(fault),
                    });
                }
            }
        }
        if waiting.is_empty() {
            return Ok(());
        }
        waiting.sort_unstable();
        let waits = waiting.iter().filter_map(|role| self.wait(*role)).collect();
        Err(Error::Deadlock { tile: self.at.clone(), waits })
    }

    fn step(&mut self, role: usize, stmt: &'k Stmt) -> Result<Done, Fault> {
        match stmt {
            Stmt::Op(node) => self.exec(role, node),
            Stmt::For { var, lo, hi, step, body } => {
                let (lo, hi) = (self.index(role, *lo)?, self.index(role, *hi)?);
                if lo < hi {
                    self.define(role, *var, Held::Index(lo));
                    let step = i64::try_from(*step).unwrap_or(i64::MAX);
                    let counter = Some((*var, lo, hi, step));
                    self.threads[role].frames.push(Frame { block: body, next: 0, counter });
                }
                Ok(Done::Yes)
            }
            Stmt::If { cond, body } => {
                if self.index(role, *cond)? != 0 {
                    self.threads[role].frames.push(Frame { block: body, next: 0, counter: None });
                }
                Ok(Done::Yes)
            }
        }
    }

    fn wait(&self, role: usize) -> Option<Wait> {
        let thread = &self.threads[role];
        let frame = thread.frames.last()?;
        let stmt = frame.block.get(frame.next)?;
        let on = match stmt {
            Stmt::Op(node) => match &node.op {
                Op::Acquire { ring } => {
                    self.kernel.ring_of(*ring).map(|r| format!("a free slot of %{}", r.name))
                }
                Op::Take { ring } => self.kernel.ring_of(*ring).map(|r| format!("a slot of %{}", r.name)),
                _ => None,
            },
            Stmt::For { .. } | Stmt::If { .. } => None,
        };
        Some(Wait {
            role: self.kernel.roles[role].name.clone(),
            statement: print_stmt(self.kernel, stmt),
            on: on.unwrap_or_default(),
        })
    }

    /// Gives a value of a role its contents.
    pub(super) fn define(&mut self, role: usize, v: Value, held: Held) {
        let values = &mut self.threads[role].values;
        if values.len() <= v.index() {
            values.resize(v.index() + 1, None);
        }
        values[v.index()] = Some(held);
    }

    fn held(&self, role: usize, v: Value) -> Option<&Held> {
        self.threads[role].values.get(v.index())?.as_ref()
    }

    /// An index.
    pub(super) fn index(&self, role: usize, v: Value) -> Result<i64, Fault> {
        match self.held(role, v) {
            Some(Held::Index(n)) => Ok(*n),
            Some(Held::Slot(_) | Held::Tile(_)) | None => Err(Fault::Operand(v)),
        }
    }

    /// Indices.
    pub(super) fn indices(&self, role: usize, list: &[Value]) -> Result<Vec<i64>, Fault> {
        list.iter().map(|v| self.index(role, *v)).collect()
    }

    /// A tile.
    pub(super) fn matrix(&self, role: usize, v: Value) -> Result<Rc<Matrix>, Fault> {
        match self.held(role, v) {
            Some(Held::Tile(t)) => Ok(Rc::clone(t)),
            Some(Held::Slot(_) | Held::Index(_)) | None => Err(Fault::Operand(v)),
        }
    }

    /// A slot that a role holds.
    pub(super) fn slot(&self, role: usize, v: Value) -> Result<SlotRef, Fault> {
        match self.held(role, v) {
            Some(Held::Slot(s)) => Ok(*s),
            Some(Held::Tile(_) | Held::Index(_)) | None => Err(Fault::Operand(v)),
        }
    }

    /// The contents of a slot that a role holds, all copies landed.
    pub(super) fn contents(&mut self, role: usize, v: Value) -> Result<&mut Matrix, Fault> {
        let SlotRef { ring, slot } = self.slot(role, v)?;
        let ring = self.rings.get_mut(ring).ok_or(Fault::Operand(v))?;
        ring.land(slot, self.views, self.tile)?;
        Ok(&mut ring.slot_mut(slot).matrix)
    }

    /// Number of the parameter that a value stands for.
    pub(super) fn view(&self, v: Value) -> Result<usize, Fault> {
        if v.index() < self.views.len() { Ok(v.index()) } else { Err(Fault::Operand(v)) }
    }

    /// Lands all copies from a parameter that is about to be written.
    pub(super) fn settle(&mut self, view: usize) -> Result<(), Fault> {
        for ring in &mut self.rings {
            ring.land_from(view, self.views, self.tile)?;
        }
        Ok(())
    }
}

impl<'k> Thread<'k> {
    /// The next statement; leaves blocks and repeats loops that are at their ends.
    fn next(&mut self) -> Option<&'k Stmt> {
        loop {
            let frame = self.frames.last_mut()?;
            if let Some(stmt) = frame.block.get(frame.next) {
                frame.next += 1;
                return Some(stmt);
            }
            let again = frame.counter.and_then(|(var, at, hi, step)| {
                let at = at.checked_add(step).filter(|at| *at < hi)?;
                frame.counter = Some((var, at, hi, step));
                frame.next = 0;
                Some((var, at))
            });
            match again {
                Some((var, at)) => {
                    if let Some(held) = self.values.get_mut(var.index()) {
                        *held = Some(Held::Index(at));
                    }
                }
                None => {
                    self.frames.pop();
                }
            }
        }
    }
    /// Goes back to the statement that has to wait.
    fn retry(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.next = frame.next.saturating_sub(1);
        }
    }
}
