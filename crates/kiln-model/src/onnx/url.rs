//! Paths of models as `file://` URLs (RFC 8089).

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::ModelError;
use super::error::shown;

const SCHEME: &[u8] = b"file://";

/// The path that a model is named by: that of a `file://` URL, or the path as it is.
///
/// ```
/// use std::path::Path;
///
/// let path = kiln_model::onnx::path_of(Path::new("file:///models/a%20model.onnx"))?;
/// assert_eq!(path, Path::new("/models/a model.onnx"));
/// assert_eq!(kiln_model::onnx::path_of(Path::new("model.onnx"))?, Path::new("model.onnx"));
/// # Ok::<(), kiln_model::onnx::ModelError>(())
/// ```
///
/// # Errors
///
/// [`ModelError::Url`] for a URL of another host than this one (none, or `localhost`), with a query or a fragment, and
/// with a `%` that no two hexadecimal digits follow.
pub fn path_of(named: &Path) -> Result<Cow<'_, Path>, ModelError> {
    let bytes = named.as_os_str().as_bytes();
    let Some((scheme, rest)) = bytes.split_at_checked(SCHEME.len()) else { return Ok(Cow::Borrowed(named)) };
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return Ok(Cow::Borrowed(named));
    }
    let refused = |reason| ModelError::Url { url: shown(&named.to_string_lossy()), reason };
    let start = rest.iter().position(|&byte| byte == b'/').ok_or_else(|| refused("it has no path after the host"))?;
    let (host, path) = rest.split_at(start);
    if !(host.is_empty() || host.eq_ignore_ascii_case(b"localhost")) {
        return Err(refused("it names another host; only files of this machine are read"));
    }
    if path.iter().any(|byte| matches!(byte, b'?' | b'#')) {
        return Err(refused("it has a query or a fragment; in names of files write %3F for ? and %23 for #"));
    }
    let path = decoded(path).ok_or_else(|| refused("a % in it is not followed by two hexadecimal digits"))?;
    Ok(Cow::Owned(PathBuf::from(OsString::from_vec(path))))
}

/// The bytes for which `%` and two hexadecimal digits stand, and all others as they are.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: Option<&u8>| byte.and_then(|&byte| char::from(byte).to_digit(16));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        bytes.push(if byte == b'%' { (digit(rest.next())? * 16 + digit(rest.next())?) as u8 } else { byte });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_this_machine_are_paths_and_others_are_refused() {
        let paths = [
            ("model.onnx", "model.onnx"),
            ("/a%20b", "/a%20b"),
            ("file:/a", "file:/a"),
            ("file", "file"),
            ("file:///a%20b/c%25%3f.onnx", "/a b/c%?.onnx"),
            ("FILE://LocalHost/a", "/a"),
        ];
        for (named, path) in paths {
            assert_eq!(path_of(Path::new(named)).unwrap(), Path::new(path), "{named}");
        }
        let odd = path_of(Path::new("file:///%ff")).unwrap();
        assert_eq!(odd.as_os_str().as_bytes(), b"/\xff");
        for url in ["file://host/a", "file://", "file://a", "file:///a%2", "file:///a%", "file:///%+1", "file:///a#b"] {
            let error = path_of(Path::new(url)).unwrap_err();
            assert!(matches!(error, ModelError::Url { .. }), "{url}: {error}");
            assert!(error.to_string().contains(url), "{url}: {error}");
        }
    }
}
