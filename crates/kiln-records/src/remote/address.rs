//! The meaning of a remote store's URL. Knows no client.

use super::RemoteError;

/// The address of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "remote"), allow(dead_code, reason = "only a client looks into it"))]
pub(super) enum Address {
    /// Redis, or a server with its protocol.
    Redis {
        /// Whether through TLS.
        tls: bool,
        host: String,
        port: u16,
        /// The number of the database.
        db: u16,
        /// The prefix of objects' names.
        prefix: String,
    },
    /// S3, or a server with its protocol.
    S3 { bucket: String, prefix: String, endpoint: Option<String>, region: Option<String> },
}

/// Redis' default port.
const PORT: u16 = 6379;
/// The prefix where a URL names none, so that records are not mixed with other keys.
const PREFIX: &str = "kiln";

/// Reads a URL.
pub(super) fn parse(url: &str) -> Result<Address, RemoteError> {
    let wrong = |why| Err(RemoteError::Address { url: shown(url), why });
    if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return wrong("it holds spaces or characters that no URL has");
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        return wrong("expected redis://, rediss:// or s3://");
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.contains('@') {
        return wrong(
            "a user and password belong into KILN_REMOTE_USER and KILN_REMOTE_PASSWORD, where no log shows them",
        );
    }
    let prefix = match prefix.trim_matches('/') {
        "" => PREFIX.to_owned(),
        prefix if prefix.split('/').any(|part| matches!(part, "" | "." | "..")) => {
            return wrong("the prefix has empty parts or dots");
        }
        prefix => prefix.to_owned(),
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    match scheme {
        "redis" | "rediss" => {
            let (host, port) = match authority.rsplit_once(':') {
                // The colons of an IPv6 address stand in brackets.
                Some((host, port)) if !port.contains(']') => (host, port.parse().ok()),
                _ => (authority, Some(PORT)),
            };
            let Some(port) = port.filter(|port| *port != 0) else { return wrong("the port is no number of a port") };
            let host = host.trim_start_matches('[').trim_end_matches(']');
            if host.is_empty() {
                return wrong("it names no host");
            }
            let mut db = 0;
            for (key, value) in pairs {
                match (key, value.parse()) {
                    ("db", Ok(number)) => db = number,
                    _ => return wrong("behind the question mark only db=NUMBER is known"),
                }
            }
            Ok(Address::Redis { tls: scheme == "rediss", host: host.to_owned(), port, db, prefix })
        }
        "s3" => {
            if authority.is_empty() {
                return wrong("it names no bucket");
            }
            let (mut endpoint, mut region) = (None, None);
            for (key, value) in pairs {
                match key {
                    "endpoint" if value.starts_with("http://") || value.starts_with("https://") => {
                        endpoint = Some(value.to_owned());
                    }
                    "region" if !value.is_empty() => region = Some(value.to_owned()),
                    _ => {
                        return wrong("behind the question mark only endpoint=http(s)://... and region=NAME are known");
                    }
                }
            }
            Ok(Address::S3 { bucket: authority.to_owned(), prefix, endpoint, region })
        }
        _ => wrong("expected redis://, rediss:// or s3://"),
    }
}

/// The URL without the part before an @, which may be a password.
fn shown(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://...@{rest}"),
        (None, Some((_, rest))) => format!("...@{rest}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redis(tls: bool, host: &str, port: u16, db: u16, prefix: &str) -> Address {
        Address::Redis { tls, host: host.to_owned(), port, db, prefix: prefix.to_owned() }
    }

    #[test]
    fn urls_say_where_the_store_is() {
        let table = [
            ("redis://cache", redis(false, "cache", 6379, 0, "kiln")),
            ("redis://10.0.0.7:7000/a/b/?db=3", redis(false, "10.0.0.7", 7000, 3, "a/b")),
            ("rediss://[::1]:7000/x", redis(true, "::1", 7000, 0, "x")),
            ("redis://[::1]", redis(false, "::1", 6379, 0, "kiln")),
        ];
        for (url, address) in table {
            assert_eq!(parse(url), Ok(address), "{url}");
        }
        let s3 = |prefix: &str, endpoint: Option<&str>, region: Option<&str>| Address::S3 {
            bucket: "records".to_owned(),
            prefix: prefix.to_owned(),
            endpoint: endpoint.map(Into::into),
            region: region.map(Into::into),
        };
        assert_eq!(parse("s3://records"), Ok(s3("kiln", None, None)));
        let url = "s3://records/fleet?endpoint=http://127.0.0.1:5000&region=eu-west-1";
        assert_eq!(parse(url), Ok(s3("fleet", Some("http://127.0.0.1:5000"), Some("eu-west-1"))));
    }

    #[test]
    fn other_urls_are_refused_and_no_password_is_repeated() {
        for url in [
            "",
            "cache:6379",
            "http://cache",
            "redis://",
            "redis://cache:port",
            "redis://cache:0",
            "redis://cache:70000",
            "redis://cache?ttl=3",
            "redis://cache?db=-1",
            "redis://cache/../x",
            "redis://ca che",
            "s3:///prefix",
            "s3://bucket?endpoint=ftp://x",
            "s3://bucket?secret=x",
            "redis://user:opensesame@cache",
            "s3://key:opensesame@bucket",
            "user:opensesame@cache",
        ] {
            let error = parse(url).unwrap_err();
            assert!(matches!(error, RemoteError::Address { .. }), "{url}");
            assert!(
                !error.to_string().contains("opensesame") && !format!("{error:?}").contains("opensesame"),
                "{error}"
            );
        }
    }
}
