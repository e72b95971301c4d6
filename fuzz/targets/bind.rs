//! The body of a Bind: what is read of it is all of it.
#![no_main]

use dataglot_server::fuzzing::{self, Bind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    if let Some(bind) = fuzzing::bind(body) {
        assert_eq!(written(&bind), body);
        // Not one byte less, not one more.
        assert!(fuzzing::bind(&body[..body.len() - 1]).is_none());
        assert!(fuzzing::bind(&[body, b"\0"].concat()).is_none());
    }
});

fn written(bind: &Bind<'_>) -> Vec<u8> {
    let mut body = Vec::new();
    for text in [bind.portal, bind.statement] {
        body.extend_from_slice(text.as_bytes());
        body.push(0);
    }
    count(&mut body, bind.formats.len());
    bind.formats.iter().for_each(|format| body.extend_from_slice(&format.to_be_bytes()));
    count(&mut body, bind.values.len());
    for value in &bind.values {
        match value {
            None => body.extend_from_slice(&(-1i32).to_be_bytes()),
            Some(bytes) => {
                body.extend_from_slice(&i32::try_from(bytes.len()).unwrap().to_be_bytes());
                body.extend_from_slice(bytes);
            }
        }
    }
    count(&mut body, bind.result_formats.len());
    bind.result_formats.iter().for_each(|format| body.extend_from_slice(&format.to_be_bytes()));
    body
}

fn count(body: &mut Vec<u8>, count: usize) {
    body.extend_from_slice(&u16::try_from(count).unwrap().to_be_bytes());
}
