//! Where an array lies, or will when it has been computed.

use super::Array;
use crate::sched::Place;
use crate::util::FastMap;

impl Array {
    /// Where it lies, or will when it has been computed: where the arrays lie that it is made of. Nothing is computed;
    /// where these lie on two devices, computing it will be an error.
    pub fn place(&self) -> Place {
        let mut seen: FastMap<u64, ()> = FastMap::default();
        let mut waiting = vec![self.clone()];
        let mut place = Place::Anywhere;
        while let Some(array) = waiting.pop() {
            if seen.insert(array.id(), ()).is_some() {
                continue;
            }
            match array.value().map(Place::of) {
                Some(Place::Device(id)) => return Place::Device(id),
                Some(Place::Anywhere) => {}
                Some(found) => place = found,
                None => waiting.extend(array.0.inputs()),
            }
        }
        place
    }
}
