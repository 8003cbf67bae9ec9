internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging
internal import CSQLite

/// The conversions of a migration, for the SQL function of that name. The connection owns it.
final class ValueConversions {
    private var conversions: [ValueConversion] = []

    init(on connection: Connection) throws(StoreError) {
        let result = sqlite3_create_function_v2(
            connection.handle, conversionFunction, 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY,
            Unmanaged.passRetained(self).toOpaque(),
            { context, _, values in
                let all = Unmanaged<ValueConversions>.fromOpaque(sqlite3_user_data(context)).takeUnretainedValue()
                all.conversions[Int(sqlite3_value_int(values![0]))].convert(Cell(values![1])) { $0.copy(to: context) }
            }, nil, nil, { Unmanaged<ValueConversions>.fromOpaque($0!).release() })
        guard result == SQLITE_OK else { throw connection.error(result) }
    }

    /// See `AttributeConversion`.
    func number(_ old: Attribute, _ new: Attribute) -> Int {
        conversions.append(ValueConversion(from: old, to: new))
        return conversions.count - 1
    }
}

extension Cell {
    /// Sets a copy of the value as the result of a function.
    fileprivate func copy(to context: OpaquePointer?) {
        guard kind == .text, count > 0 else { return give(to: context) }
        bytes.withMemoryRebound(to: CChar.self) {
            sqlite3_result_text64(
                context, $0.baseAddress, sqlite3_uint64($0.count), unsafeBitCast(-1, to: sqlite3_destructor_type.self),
                UInt8(SQLITE_UTF8))
        }
    }
}
