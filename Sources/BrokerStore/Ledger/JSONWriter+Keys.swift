internal import BrokerSchema
internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging
internal import Foundation

extension JSONWriter {
    /// A key in the contract's form: the identity's value, or an object of attribute names and values, or the row key.
    mutating func key(_ cells: [Cell], of entity: Entity) {
        if entity.isNamedByRowKey { return integer(cells[0].integer) }
        let attributes = entity.identity.map { entity.attributes[$0] }
        guard cells.count > 1 else { return cell(cells[0], of: attributes[0]) }
        object { writer in
            for (cell, attribute) in zip(cells, attributes) {
                writer.key(attribute.name)
                writer.cell(cell, of: attribute)
            }
        }
    }

    /// A column's value as JSON: booleans as `true` and `false`, bytes in base64.
    mutating func cell(_ cell: Cell, of attribute: Attribute) {
        switch cell.kind {
        case .integer where attribute.type == .boolean: bool(cell.integer != 0)
        case .integer: integer(cell.integer)
        case .real: double(cell.real)
        case .text: string(cell.bytes)
        case .blob: string(Data(cell.bytes).base64EncodedString())
        case .absent, .null, .object: null()
        }
    }
}
