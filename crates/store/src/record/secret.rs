//! `secrets`, `previous_secrets` and `data_keys`: the ciphertext as it is, after its hash.

use std::sync::Arc;

use dataglot_model::SecretHash;

use super::Bad;

pub(super) fn encode(envelope: &[u8], hash: SecretHash, out: &mut Vec<u8>) {
    out.extend_from_slice(&hash.0);
    out.extend_from_slice(envelope);
}

pub(super) fn decode(body: &[u8]) -> Result<(Arc<[u8]>, SecretHash), Bad> {
    let (hash, envelope) = body.split_first_chunk::<32>().ok_or(Bad::Value)?;
    Ok((envelope.into(), SecretHash(*hash)))
}
