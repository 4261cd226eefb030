//! Flat buffers: tables of numbered fields, read in place. Every offset is checked against the end of the bytes.

use super::damaged;
use crate::error::Result;

/// A table of a flat buffer: numbered fields. Any field may be absent.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Table<'a> {
    pub(super) fn root(bytes: &'a [u8]) -> Result<Table<'a>> {
        Table { bytes, at: 0 }.follow(0)
    }

    /// Four bytes somewhere in the buffer.
    fn word(&self, at: usize) -> Result<[u8; 4]> {
        let found = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
        found.copied().ok_or_else(damaged)
    }

    /// The table that the offset at `at` leads to.
    fn follow(&self, at: usize) -> Result<Table<'a>> {
        let offset = u32::from_le_bytes(self.word(at)?) as usize;
        Ok(Table { bytes: self.bytes, at: at.checked_add(offset).ok_or_else(damaged)? })
    }

    /// Where a field is, if the table has it.
    fn field(&self, number: usize) -> Result<Option<usize>> {
        let back = i64::from(i32::from_le_bytes(self.word(self.at)?));
        let names = usize::try_from(self.at as i64 - back).map_err(|_| damaged())?;
        let short = |at: usize| -> Result<usize> {
            let found = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<2>());
            found.map(|two| usize::from(u16::from_le_bytes(*two))).ok_or_else(damaged)
        };
        let place = 4 + 2 * number;
        if place + 2 > short(names)? {
            return Ok(None);
        }
        let offset = short(names + place)?;
        Ok((offset != 0).then_some(self.at + offset))
    }

    pub(super) fn byte(&self, number: usize) -> Result<u8> {
        let Some(at) = self.field(number)? else { return Ok(0) };
        self.bytes.get(at).copied().ok_or_else(damaged)
    }

    pub(super) fn int(&self, number: usize) -> Result<i32> {
        self.field(number)?.map_or(Ok(0), |at| self.word(at).map(i32::from_le_bytes))
    }

    pub(super) fn long(&self, number: usize) -> Result<i64> {
        let Some(at) = self.field(number)? else { return Ok(0) };
        let found = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<8>());
        found.map(|eight| i64::from_le_bytes(*eight)).ok_or_else(damaged)
    }

    pub(super) fn table(&self, number: usize) -> Result<Option<Table<'a>>> {
        self.field(number)?.map(|at| self.follow(at)).transpose()
    }

    pub(super) fn text(&self, number: usize) -> Result<&'a str> {
        self.field(number)?.map_or(Ok(""), |at| self.text_at(at))
    }

    fn text_at(&self, at: usize) -> Result<&'a str> {
        let text = self.follow(at)?;
        let length = u32::from_le_bytes(self.word(text.at)?) as usize;
        let found = self.bytes.get(text.at + 4..).and_then(|rest| rest.get(..length));
        found.and_then(|found| std::str::from_utf8(found).ok()).ok_or_else(damaged)
    }

    /// The places of a list's elements.
    fn list(&self, number: usize) -> Result<Vec<usize>> {
        let Some(list) = self.table(number)? else { return Ok(Vec::new()) };
        let length = u32::from_le_bytes(self.word(list.at)?) as usize;
        // Each element takes four bytes, so that no list is longer than the buffer.
        if length > self.bytes.len() / 4 {
            return Err(damaged());
        }
        Ok((0..length).map(|element| list.at + 4 + 4 * element).collect())
    }

    /// A list of numbers of `N` bytes each.
    pub(super) fn numbers<const N: usize>(&self, number: usize) -> Result<Vec<[u8; N]>> {
        let Some(list) = self.table(number)? else { return Ok(Vec::new()) };
        let length = u32::from_le_bytes(self.word(list.at)?) as usize;
        let end = length.checked_mul(N).and_then(|bytes| bytes.checked_add(list.at + 4)).ok_or_else(damaged)?;
        let bytes = self.bytes.get(list.at + 4..end).ok_or_else(damaged)?;
        Ok(bytes.as_chunks().0.to_vec())
    }

    /// A list of bytes, in place.
    pub(super) fn bytes(&self, number: usize) -> Result<&'a [u8]> {
        let Some(list) = self.table(number)? else { return Ok(&[]) };
        let length = u32::from_le_bytes(self.word(list.at)?) as usize;
        self.bytes.get(list.at + 4..).and_then(|rest| rest.get(..length)).ok_or_else(damaged)
    }

    pub(super) fn float(&self, number: usize) -> Result<f32> {
        self.field(number)?.map_or(Ok(0.0), |at| self.word(at).map(f32::from_le_bytes))
    }

    /// Whether the table has the field.
    pub(super) fn has(&self, number: usize) -> Result<bool> {
        self.field(number).map(|field| field.is_some())
    }

    pub(super) fn tables(&self, number: usize) -> Result<Vec<Table<'a>>> {
        self.list(number)?.into_iter().map(|at| self.follow(at)).collect()
    }

    pub(super) fn texts(&self, number: usize) -> Result<Vec<&'a str>> {
        self.list(number)?.into_iter().map(|at| self.text_at(at)).collect()
    }
}
