//! Canaries: texts that are nowhere else, and the search for them in whatever form they may have taken.

use std::fmt::Write as _;

use aho_corasick::AhoCorasick;

/// A credential that must not be seen again.
#[derive(Clone, Debug)]
pub struct Canary {
    /// 20 letters and digits, found in no other text.
    core: String,
    /// The credential: the core, and what is hard to quote around it.
    pub text: String,
}

impl Canary {
    /// The canary of that number: the same one in every run.
    pub fn new(number: usize) -> Canary {
        let mut state = u64::try_from(number).unwrap().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut letter = || {
            // SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            char::from(b"abcdefghijklmnopqrstuvwxyz012345"[usize::try_from((z ^ (z >> 31)) % 32).unwrap()])
        };
        // A letter first: it can stand for a name, too.
        let core: String = std::iter::once('q').chain((0..19).map(|_| letter())).collect();
        let text = match number % 4 {
            0 => core.clone(),
            1 => format!("{core}\"/<&>"),
            2 => format!("pre'{core} %2B+\\"),
            _ => format!("\u{e9}\u{4e16}{core}\tend"),
        };
        Canary { core, text }
    }

    /// As a word that is no string.
    pub fn word(&self) -> &str {
        &self.core
    }

    /// Every form that is searched for. The core alone: whatever stands around it, its own form is part of the
    /// whole one's.
    fn forms(&self) -> Vec<(&'static str, Vec<u8>)> {
        let bytes = self.core.as_bytes();
        let each = |before: &str, one: fn(u8) -> String| -> Vec<u8> {
            bytes.iter().flat_map(|byte| format!("{before}{}", one(*byte)).into_bytes()).collect()
        };
        let wide = |order: fn(u16) -> [u8; 2]| self.core.encode_utf16().flat_map(order).collect::<Vec<u8>>();
        let mut forms = vec![
            ("raw", bytes.to_vec()),
            ("raw, upper case", bytes.to_ascii_uppercase()),
            ("hex", each("", |byte| format!("{byte:02x}"))),
            ("hex, upper case", each("", |byte| format!("{byte:02X}"))),
            ("percent", each("%", |byte| format!("{byte:02x}"))),
            ("percent, upper case", each("%", |byte| format!("{byte:02X}"))),
            ("JSON", each("\\u00", |byte| format!("{byte:02x}"))),
            ("JSON, upper case", each("\\u00", |byte| format!("{byte:02X}"))),
            (
                "decimal",
                bytes
                    .iter()
                    .fold(String::new(), |mut out, byte| {
                        let _ = write!(out, "{}{byte}", if out.is_empty() { "" } else { ", " });
                        out
                    })
                    .into_bytes(),
            ),
            ("UTF-16, little endian", wide(u16::to_le_bytes)),
            ("UTF-16, big endian", wide(u16::to_be_bytes)),
        ];
        for offset in 0..3 {
            let encoded = base64_inside(bytes, offset);
            let url_safe = encoded.replace('+', "-").replace('/', "_");
            if url_safe != encoded {
                forms.push(("base64 of URLs", url_safe.into_bytes()));
            }
            forms.push(("base64", encoded.into_bytes()));
        }
        forms
    }
}

/// What base64 makes of `bytes` that stand `offset` bytes behind a multiple of three in a longer text: the digits
/// that depend on them alone.
fn base64_inside(bytes: &[u8], offset: usize) -> String {
    let mut shifted = vec![0; offset];
    shifted.extend_from_slice(bytes);
    let mut encoded = String::new();
    for chunk in shifted.chunks(3) {
        let word = chunk.iter().chain(&[0; 3]).take(3).fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        for digit in 0..4 {
            let value = word >> (18 - 6 * digit) & 63;
            let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
            encoded.push(char::from(alphabet[usize::try_from(value).unwrap()]));
        }
    }
    let (from, to) = ((offset * 8).div_ceil(6), shifted.len() * 8 / 6);
    encoded[from..to].to_owned()
}

/// A search for many canaries at once.
pub struct Search {
    finder: AhoCorasick,
    what: Vec<(usize, &'static str)>,
}

impl Search {
    pub fn new(canaries: &[Canary]) -> Search {
        let (mut patterns, mut what) = (Vec::new(), Vec::new());
        for (number, canary) in canaries.iter().enumerate() {
            for (form, pattern) in canary.forms() {
                patterns.push(pattern);
                what.push((number, form));
            }
        }
        Search { finder: AhoCorasick::new(patterns).unwrap(), what }
    }

    /// Which canaries are in `bytes`, in which form, and what stands around them.
    pub fn hits(&self, bytes: &[u8]) -> Vec<(usize, &'static str, String)> {
        let hit = |found: aho_corasick::Match| {
            let (number, form) = self.what[found.pattern().as_usize()];
            let around = &bytes[found.start().saturating_sub(160)..bytes.len().min(found.end() + 40)];
            (number, form, around.escape_ascii().to_string())
        };
        self.finder.find_iter(bytes).map(hit).take(20).collect()
    }
}

/// The search finds what it is to find: each form, wherever it stands.
#[test]
fn each_form_is_found() {
    let canaries: Vec<Canary> = (0..8).map(Canary::new).collect();
    let search = Search::new(&canaries);
    for (number, canary) in canaries.iter().enumerate() {
        for (form, pattern) in canary.forms() {
            let hits = search.hits(&[b"before ", pattern.as_slice(), b" after"].concat());
            assert_eq!(hits.iter().map(|hit| (hit.0, hit.1)).collect::<Vec<_>>(), [(number, form)]);
        }
        // Base64 of a text that it stands in.
        for before in ["", "x", "xy", "xyz"] {
            let text = format!("{before}{}", canary.text);
            let whole: String = base64_inside(text.as_bytes(), 0);
            assert_eq!(search.hits(whole.as_bytes()).len(), 1, "{text}");
        }
        assert_eq!(search.hits(&canary.core.as_bytes()[1..]), []);
    }
}
