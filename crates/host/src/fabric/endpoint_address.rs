//! An endpoint address: a rank's name in the fabric, sent to another rank in a sealed datagram.
//!
//! ```text
//! 0       1
//! | wants | name ...
//! ```

/// The address, as it is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct EndpointAddress<'a> {
    /// Whether the sender wants ours in return.
    pub(super) wants: bool,
    /// The library's name for the sender's endpoint.
    pub(super) name: &'a [u8],
}

/// The longest name of an endpoint.
pub(super) const NAME_BYTES_MAX: usize = 256;

impl<'a> EndpointAddress<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Option<EndpointAddress<'a>> {
        let (&wants, name) = bytes.split_first()?;
        let fits = wants <= 1 && !name.is_empty() && name.len() <= NAME_BYTES_MAX;
        fits.then_some(EndpointAddress { wants: wants == 1, name })
    }

    pub(super) fn emit(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(1 + self.name.len());
        bytes.push(u8::from(self.wants));
        bytes.extend_from_slice(self.name);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_comes_out_as_it_went_in() {
        for wants in [false, true] {
            for len in [1, 16, NAME_BYTES_MAX] {
                let name = vec![7; len];
                let address = EndpointAddress { wants, name: &name };
                assert_eq!(EndpointAddress::parse(&address.emit()), Some(address));
            }
        }
    }

    #[test]
    fn what_is_no_address_is_not_taken() {
        let long = [1; NAME_BYTES_MAX + 2];
        for bytes in [&[][..], &[0], &[1], &[2, 7], &[255, 7], &long] {
            assert_eq!(EndpointAddress::parse(bytes), None);
        }
    }
}
