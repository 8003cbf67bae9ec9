import BrokerJSON
import BrokerModel

@testable import BrokerStaging

/// A converted value with bytes of its own, for comparison.
enum StoredValue: Equatable {
    case null
    case integer(Int64)
    case real(Double)
    case text(String)
    case blob([UInt8])
    case refused(ValueFault.Reason)
    case other(Cell.Kind)

    init(_ cell: Cell) {
        self =
            switch cell.kind {
            case .null: .null
            case .integer: .integer(cell.integer)
            case .real: .real(cell.real)
            case .text: .text(String(decoding: cell.bytes, as: UTF8.self))
            case .blob: .blob(Array(cell.bytes))
            case .absent, .object: .other(cell.kind)
            }
    }

    static let inconvertible = StoredValue.refused(.inconvertible)
    static let notAllowed = StoredValue.refused(.notAllowed)
}

extension ValueConverter {
    /// Returns the stored value of a JSON text.
    func stored(_ json: String) throws -> StoredValue {
        let document = try JSONDocument(parsing: JSONText(copying: Array(json.utf8)))
        return withExtendedLifetime(document) {
            var arena = ByteArena()
            do throws(ValueFault) {
                return StoredValue(try convert(document.root, arena: &arena))
            } catch {
                return .refused(error.reason)
            }
        }
    }

    /// Returns the message of a rejected JSON text; nil when it is accepted.
    func refusal(of json: String) throws -> String? {
        let document = try JSONDocument(parsing: JSONText(copying: Array(json.utf8)))
        return withExtendedLifetime(document) {
            var arena = ByteArena()
            do throws(ValueFault) {
                _ = try convert(document.root, arena: &arena)
                return nil
            } catch {
                return error.message
            }
        }
    }

    /// Whether the bytes of the value are inside the document, so that none were copied.
    func storesInPlace(_ json: String) throws -> Bool {
        let document = try JSONDocument(parsing: JSONText(copying: Array(json.utf8)))
        return try withExtendedLifetime(document) {
            var arena = ByteArena()
            let start = try convert(document.root, arena: &arena).bytes.baseAddress!
            let text = document.text.bytes
            return text.baseAddress! <= start && start < text.baseAddress! + text.count
        }
    }
}

/// Calls `body` with the text's bytes; its results in the arena are valid during the call.
func withBytes<Result>(
    of text: String, _ body: (UnsafeBufferPointer<UInt8>, inout ByteArena) throws -> Result
) rethrows -> Result {
    var text = text
    return try text.withUTF8 { bytes in
        var arena = ByteArena()
        return try body(bytes, &arena)
    }
}
