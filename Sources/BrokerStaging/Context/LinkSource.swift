internal import BrokerJSON
internal import BrokerModel

/// The record that asserts a link: its row, and its offset in the text.
struct LinkSource {
    let entity: EntityPlan
    let row: Int
    let sourceOffset: UInt32
    /// The position, from 0, of the relationship's value that is read.
    var position: UInt32 = 0
}
