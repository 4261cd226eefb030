//! Structured control: conditions and loops around a body that an emitter gives. Labels and jumps are made here, so
//! that every loop of a form has the same instructions.
//!
//! Flags are not kept: each form compares its own operands. A body may use its counter, but must leave it unchanged,
//! except in forms whose body advances it. All comparisons are signed.

use super::{Asm, Cond, Gpr, Mask, Mem};

impl Asm {
    /// `body` where the register is not zero.
    pub fn unless_zero(&mut self, value: Gpr, body: impl FnOnce(&mut Asm)) {
        let over = self.label();
        self.test(value);
        self.jump_if(Cond::Equal, over);
        body(self);
        self.bind(over);
    }

    /// `body` where the register is not zero, `otherwise` where it is. Both stand in this order.
    pub fn unless_zero_else(&mut self, value: Gpr, body: impl FnOnce(&mut Asm), otherwise: impl FnOnce(&mut Asm)) {
        let (zero, done) = (self.label(), self.label());
        self.test(value);
        self.jump_if(Cond::Equal, zero);
        body(self);
        self.jump(done);
        self.bind(zero);
        otherwise(self);
        self.bind(done);
    }

    /// `body` where the register is zero, `otherwise` where it is not. Both stand in this order.
    pub fn if_zero_else(&mut self, value: Gpr, body: impl FnOnce(&mut Asm), otherwise: impl FnOnce(&mut Asm)) {
        let (other, done) = (self.label(), self.label());
        self.test(value);
        self.jump_if(Cond::NotEqual, other);
        body(self);
        self.jump(done);
        self.bind(other);
        otherwise(self);
        self.bind(done);
    }

    /// `body` where a lane of the mask is set, for all lanes.
    pub fn if_any(&mut self, mask: Mask, body: impl FnOnce(&mut Asm)) {
        let over = self.label();
        self.test_mask(mask);
        self.jump_if(Cond::Equal, over);
        body(self);
        self.bind(over);
    }

    /// `body` where the registers differ.
    pub fn unless_equal(&mut self, a: Gpr, b: Gpr, body: impl FnOnce(&mut Asm)) {
        let over = self.label();
        self.cmp(a, b);
        self.jump_if(Cond::Equal, over);
        body(self);
        self.bind(over);
    }

    /// `body` where the register holds at least that much.
    pub fn if_at_least(&mut self, value: Gpr, least: i32, body: impl FnOnce(&mut Asm)) {
        let over = self.label();
        self.cmp_imm(value, least);
        self.jump_if(Cond::Less, over);
        body(self);
        self.bind(over);
    }

    /// `body` where the register holds at least that much, `otherwise` where it holds less. Both stand in this order.
    pub fn if_at_least_else(
        &mut self,
        value: Gpr,
        least: i32,
        body: impl FnOnce(&mut Asm),
        otherwise: impl FnOnce(&mut Asm),
    ) {
        let (less, done) = (self.label(), self.label());
        self.cmp_imm(value, least);
        self.jump_if(Cond::Less, less);
        body(self);
        self.jump(done);
        self.bind(less);
        otherwise(self);
        self.bind(done);
    }

    /// dst = the smaller of the two registers.
    pub fn min(&mut self, dst: Gpr, src: Gpr) {
        let less = self.label();
        self.cmp(dst, src);
        self.jump_if(Cond::Less, less);
        self.mov(dst, src);
        self.bind(less);
    }

    /// Runs `body` as many times as the register counts, down to zero. The count is compared after the body, so it must
    /// be at least one.
    pub fn repeat(&mut self, count: Gpr, body: impl FnOnce(&mut Asm)) {
        let again = self.label();
        self.bind(again);
        body(self);
        self.sub_imm(count, 1);
        self.test(count);
        self.jump_if(Cond::NotEqual, again);
    }

    /// As [`Asm::repeat`], for a count that may be zero. The loop is aligned to `align` bytes; 1 does not align it.
    pub fn for_each(&mut self, count: Gpr, align: usize, body: impl FnOnce(&mut Asm)) {
        self.unless_zero(count, |asm| {
            asm.align(align);
            asm.repeat(count, body);
        });
    }

    /// As [`Asm::repeat`], with the count in memory; `scratch` is overwritten after the body.
    pub fn repeat_in_memory(&mut self, count: Mem, scratch: Gpr, body: impl FnOnce(&mut Asm)) {
        let again = self.label();
        self.bind(again);
        body(self);
        self.load(scratch, count);
        self.sub_imm(scratch, 1);
        self.store(count, scratch);
        self.test(scratch);
        self.jump_if(Cond::NotEqual, again);
    }

    /// Runs `body` once for each whole group in the count. The register then holds the rest less a group, which is
    /// negative. The loop is aligned to `align` bytes; 1 does not align it.
    pub fn for_each_group(&mut self, count: Gpr, group: i32, align: usize, body: impl FnOnce(&mut Asm)) {
        let (again, done) = (self.label(), self.label());
        self.sub_imm(count, group);
        self.cmp_imm(count, 0);
        self.jump_if(Cond::Less, done);
        self.align(align);
        self.bind(again);
        body(self);
        self.sub_imm(count, group);
        self.cmp_imm(count, 0);
        self.jump_if(Cond::GreaterEqual, again);
        self.bind(done);
    }

    /// Runs `body` once for each whole group in the count. The register then holds the rest.
    pub fn while_at_least(&mut self, count: Gpr, group: i32, body: impl FnOnce(&mut Asm)) {
        let (again, done) = (self.label(), self.label());
        self.bind(again);
        self.cmp_imm(count, group);
        self.jump_if(Cond::Less, done);
        body(self);
        self.sub_imm(count, group);
        self.jump(again);
        self.bind(done);
    }

    /// Runs `body`, which advances `at`, while `at` is less than `end`. The loop is aligned to `align` bytes; 1 does
    /// not align it.
    pub fn while_less(&mut self, at: Gpr, end: Gpr, align: usize, body: impl FnOnce(&mut Asm)) {
        let done = self.label();
        self.cmp(at, end);
        self.jump_if(Cond::GreaterEqual, done);
        self.align(align);
        self.repeat_while_less(at, end, body);
        self.bind(done);
    }

    /// As [`Asm::while_less`], with a single comparison, before the body: less code, but one more jump each time, where
    /// the body rarely runs.
    pub fn while_less_compact(&mut self, at: Gpr, end: Gpr, body: impl FnOnce(&mut Asm)) {
        let (again, done) = (self.label(), self.label());
        self.bind(again);
        self.cmp(at, end);
        self.jump_if(Cond::GreaterEqual, done);
        body(self);
        self.jump(again);
        self.bind(done);
    }

    /// As [`Asm::while_less`], while `at` is at most `last`.
    pub fn while_at_most(&mut self, at: Gpr, last: Gpr, align: usize, body: impl FnOnce(&mut Asm)) {
        let (again, done) = (self.label(), self.label());
        self.cmp(at, last);
        self.jump_if(Cond::Greater, done);
        self.align(align);
        self.bind(again);
        body(self);
        self.cmp(at, last);
        self.jump_if(Cond::LessEqual, again);
        self.bind(done);
    }

    /// Runs `body`, which advances `at`, once and then while `at` is less than `end`.
    pub fn repeat_while_less(&mut self, at: Gpr, end: Gpr, body: impl FnOnce(&mut Asm)) {
        let again = self.label();
        self.bind(again);
        body(self);
        self.cmp(at, end);
        self.jump_if(Cond::Less, again);
    }
}
