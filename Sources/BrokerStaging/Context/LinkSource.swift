internal import BrokerJSON
internal import BrokerModel

/// The record that asserts a link: its row, and its offset in the text.
struct LinkSource {
    /// Index of the record's entity.
    let entity: Int
    /// Index of the entity whose table has the row.
    let table: Int
    let row: Int
    let sourceOffset: UInt32
    /// The position, from 0, of the relationship's value that is read.
    var position: UInt32 = 0

    init(entity: EntityPlan, row: Int, sourceOffset: UInt32) {
        self.entity = entity.ownIndex
        table = entity.index
        self.row = row
        self.sourceOffset = sourceOffset
    }
}
