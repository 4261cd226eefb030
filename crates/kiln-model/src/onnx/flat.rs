//! Flat buffers: tables of numbered fields, read in place. Every offset is checked against the end of the bytes.

/// The buffer is cut off, or an offset points beyond its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is cut off or points beyond its end")]
pub struct CutOff;

type Result<T> = std::result::Result<T, CutOff>;

/// A table of a flat buffer: numbered fields. Any field may be absent.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Table<'a> {
    /// The table of the whole buffer.
    ///
    /// # Errors
    ///
    /// [`CutOff`].
    pub fn root(bytes: &'a [u8]) -> Result<Table<'a>> {
        Table { bytes, at: 0 }.follow(0)
    }

    /// Four bytes somewhere in the buffer.
    fn word(&self, at: usize) -> Result<[u8; 4]> {
        let found = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
        found.copied().ok_or(CutOff)
    }

    /// The table that the offset at `at` leads to.
    fn follow(&self, at: usize) -> Result<Table<'a>> {
        let offset = u32::from_le_bytes(self.word(at)?) as usize;
        Ok(Table { bytes: self.bytes, at: at.checked_add(offset).ok_or(CutOff)? })
    }

    /// Where a field is, if the table has it.
    fn field(&self, number: usize) -> Result<Option<usize>> {
        let back = i64::from(i32::from_le_bytes(self.word(self.at)?));
        let names = usize::try_from(self.at as i64 - back).map_err(|_| CutOff)?;
        let short = |at: usize| -> Result<usize> {
            let found = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<2>());
            found.map(|two| usize::from(u16::from_le_bytes(*two))).ok_or(CutOff)
        };
        let place = 4 + 2 * number;
        if place + 2 > short(names)? {
            return Ok(None);
        }
        let offset = short(names + place)?;
        Ok((offset != 0).then_some(self.at + offset))
    }

    /// A field of one byte; 0 where it is absent.
    ///
    /// # Errors
    ///
    /// [`CutOff`].
    pub fn byte(&self, number: usize) -> Result<u8> {
        let Some(at) = self.field(number)? else { return Ok(0) };
        self.bytes.get(at).copied().ok_or(CutOff)
    }

    /// A field of four bytes; 0 where it is absent.
    ///
    /// # Errors
    ///
    /// [`CutOff`].
    pub fn int(&self, number: usize) -> Result<i32> {
        self.field(number)?.map_or(Ok(0), |at| self.word(at).map(i32::from_le_bytes))
    }

    /// A field of eight bytes; 0 where it is absent.
    ///
    /// # Errors
    ///
    /// [`CutOff`].
    pub fn long(&self, number: usize) -> Result<i64> {
        let Some(at) = self.field(number)? else { return Ok(0) };
        let found = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<8>());
        found.map(|eight| i64::from_le_bytes(*eight)).ok_or(CutOff)
    }

    /// A field that leads to another table.
    ///
    /// # Errors
    ///
    /// [`CutOff`].
    pub fn table(&self, number: usize) -> Result<Option<Table<'a>>> {
        self.field(number)?.map(|at| self.follow(at)).transpose()
    }

    /// A text; empty where it is absent.
    ///
    /// # Errors
    ///
    /// [`CutOff`].
    pub fn text(&self, number: usize) -> Result<&'a str> {
        self.field(number)?.map_or(Ok(""), |at| self.text_at(at))
    }

    fn text_at(&self, at: usize) -> Result<&'a str> {
        let text = self.follow(at)?;
        let length = u32::from_le_bytes(self.word(text.at)?) as usize;
        let found = self.bytes.get(text.at + 4..).and_then(|rest| rest.get(..length));
        found.and_then(|found| std::str::from_utf8(found).ok()).ok_or(CutOff)
    }

    /// The places of a list's elements.
    fn list(&self, number: usize) -> Result<Vec<usize>> {
        let Some(list) = self.table(number)? else { return Ok(Vec::new()) };
        let length = u32::from_le_bytes(self.word(list.at)?) as usize;
        // Each element takes four bytes, so that no list is longer than the buffer.
        if length > self.bytes.len() / 4 {
            return Err(CutOff);
        }
        Ok((0..length).map(|element| list.at + 4 + 4 * element).collect())
    }

    /// A list of numbers of `N` bytes each.
    ///
    /// # Errors
    ///
    /// [`CutOff`].
    pub fn numbers<const N: usize>(&self, number: usize) -> Result<Vec<[u8; N]>> {
        let Some(list) = self.table(number)? else { return Ok(Vec::new()) };
        let length = u32::from_le_bytes(self.word(list.at)?) as usize;
        let end = length.checked_mul(N).and_then(|bytes| bytes.checked_add(list.at + 4)).ok_or(CutOff)?;
        let bytes = self.bytes.get(list.at + 4..end).ok_or(CutOff)?;
        Ok(bytes.as_chunks().0.to_vec())
    }

    /// A list of bytes, in place.
    ///
    /// # Errors
    ///
    /// [`CutOff`].
    pub fn bytes(&self, number: usize) -> Result<&'a [u8]> {
        let Some(list) = self.table(number)? else { return Ok(&[]) };
        let length = u32::from_le_bytes(self.word(list.at)?) as usize;
        self.bytes.get(list.at + 4..).and_then(|rest| rest.get(..length)).ok_or(CutOff)
    }

    /// A floating-point number; 0 where it is absent.
    ///
    /// # Errors
    ///
    /// [`CutOff`].
    pub fn float(&self, number: usize) -> Result<f32> {
        self.field(number)?.map_or(Ok(0.0), |at| self.word(at).map(f32::from_le_bytes))
    }

    /// Whether the table has the field.
    ///
    /// # Errors
    ///
    /// [`CutOff`].
    pub fn has(&self, number: usize) -> Result<bool> {
        self.field(number).map(|field| field.is_some())
    }

    /// A list of tables.
    ///
    /// # Errors
    ///
    /// [`CutOff`].
    pub fn tables(&self, number: usize) -> Result<Vec<Table<'a>>> {
        self.list(number)?.into_iter().map(|at| self.follow(at)).collect()
    }

    /// A list of texts.
    ///
    /// # Errors
    ///
    /// [`CutOff`].
    pub fn texts(&self, number: usize) -> Result<Vec<&'a str>> {
        self.list(number)?.into_iter().map(|at| self.text_at(at)).collect()
    }
}
