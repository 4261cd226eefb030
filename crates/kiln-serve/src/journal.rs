//! The report of each ended request, for a log or a trace.

use std::fmt::{self, Display};
use std::time::{Duration, SystemTime};

use hyper::HeaderMap;

/// The header of W3C Trace Context, level 1.
const TRACEPARENT: &str = "traceparent";

/// Receives reports of requests. The thread of all connections calls it, so it must return at once.
pub trait Journal: Send + Sync {
    /// A request has ended.
    fn ended(&self, request: &Ended<'_>);
}

/// A request that has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ended<'a> {
    /// The model.
    pub model: &'a str,
    /// Its version.
    pub version: u64,
    /// Its outcome: `ok`, `refused`, `full`, `timed_out`, `cancelled` or `failed`, as in the metrics.
    pub outcome: &'static str,
    /// Why it has no outputs.
    pub error: Option<&'a str>,
    /// When its headers had arrived.
    pub began: SystemTime,
    /// From its headers to its answer.
    pub took: Duration,
    /// Its time in the queue; `None` where no lane took it.
    pub queued: Option<Stage>,
    /// The model's run for it, alone or in a group; `None` without a run.
    pub ran: Option<Stage>,
    /// The number of requests in that run.
    pub together: usize,
    /// The client's place in a trace.
    pub caller: Option<Caller>,
}

/// A part of a request's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// From the request's headers to the start of this part.
    pub after: Duration,
    /// Its length.
    pub time: Duration,
}

/// The place in a trace from which a client calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The trace.
    pub trace: u128,
    /// The client's span.
    pub span: u64,
    /// Whether the client keeps the trace.
    pub is_sampled: bool,
}

impl Caller {
    /// The caller in a request's header. A header that is malformed or repeated counts as missing, as the standard
    /// requires.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Caller> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let value = values.next()?.to_str().ok()?;
        if values.next().is_some() { None } else { Caller::parse(value) }
    }

    /// Parses `VERSION-TRACE-SPAN-FLAGS` of 2, 32, 16 and 2 hexadecimal digits; later versions may have more fields
    /// behind.
    fn parse(value: &str) -> Option<Caller> {
        let mut fields = value.trim().split('-');
        let mut field = |digits: usize| {
            let field = fields.next().filter(|field| field.len() == digits)?;
            let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            if field.bytes().all(is_digit) { u128::from_str_radix(field, 16).ok() } else { None }
        };
        let version = field(2)?;
        let trace = field(32)?;
        let span = u64::try_from(field(16)?).ok()?;
        let flags = field(2)?;
        let has_more = fields.next().is_some();
        let is_valid = version != 0xff && trace != 0 && span != 0 && !(version == 0 && has_more);
        is_valid.then_some(Caller { trace, span, is_sampled: flags & 1 == 1 })
    }
}

impl Display for Caller {
    /// The trace, as its digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_read_as_the_standard_has_it() {
        let caller = Caller::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
        assert_eq!((caller.span, caller.is_sampled), (0xb7ad_6b71_6920_3331, true));
        assert_eq!(caller.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert!(!Caller::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00").unwrap().is_sampled);
        assert!(Caller::parse("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-comes").is_some());
        for wrong in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(Caller::parse(wrong), None, "{wrong}");
        }
    }
}
