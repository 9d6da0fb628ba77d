//! Words of the text form for accesses, memory classes, kinds of roles, scopes and machines.

use super::kernel::{Access, Class, RoleKind, Scope, Target};

impl Access {
    /// Every access.
    pub const ALL: &'static [Access] = &[Access::Read, Access::Write, Access::Update];
    /// Name in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::Update => "update",
        }
    }
    /// The access called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|v| v.name() == name)
    }
}

impl Class {
    /// Every class.
    pub const ALL: &'static [Class] = &[Class::Stage, Class::Accum, Class::Vec];
    /// Name in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Stage => "stage",
            Class::Accum => "accum",
            Class::Vec => "vec",
        }
    }
    /// The class called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|v| v.name() == name)
    }
}

impl RoleKind {
    /// Every kind.
    pub const ALL: &'static [RoleKind] = &[RoleKind::Copy, RoleKind::Matrix, RoleKind::Vector];
    /// Name in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            RoleKind::Copy => "copy",
            RoleKind::Matrix => "matrix",
            RoleKind::Vector => "vector",
        }
    }
    /// The kind called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|v| v.name() == name)
    }
}

impl Scope {
    /// Every scope.
    pub const ALL: &'static [Scope] = &[Scope::Core, Scope::Pair];
    /// Name in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Core => "core",
            Scope::Pair => "pair",
        }
    }
    /// The scope called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|v| v.name() == name)
    }
}

impl Target {
    /// Every machine.
    pub const ALL: &'static [Target] = &[Target::Cpu, Target::Sm100];
    /// Name in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            Target::Cpu => "cpu",
            Target::Sm100 => "sm100",
        }
    }
    /// The machine called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|v| v.name() == name)
    }
}
