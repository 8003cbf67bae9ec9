internal import BrokerJSON

/// The common shape of the scalar values at one key.
struct ScalarShape {
    private(set) var count = 0
    private var integers = 0
    private var wideIntegers = 0
    private var fractions = 0
    private var longFractions = 0
    private var booleans = 0
    private var texts = 0
    private var forms = TextForm.all

    /// A double keeps so many digits of any decimal (IEEE 754).
    private static let digitsOfDoubles = 15

    mutating func observe(_ value: JSONValue) {
        count += 1
        switch value.kind {
        case .number where value.int64 != nil: integers += 1
        case .number:
            if value.isIntegral { wideIntegers += 1 } else { fractions += 1 }
            let mantissa = value.bytes.prefix { $0 != UInt8(ascii: "e") && $0 != UInt8(ascii: "E") }
            if mantissa.count(where: { (0x30...0x39).contains($0) }) > Self.digitsOfDoubles { longFractions += 1 }
        case .true, .false: booleans += 1
        case .string:
            texts += 1
            if !forms.isEmpty { forms.formIntersection(TextForm(of: value.string ?? "")) }
        default: break
        }
    }

    mutating func merge(_ other: ScalarShape) {
        count += other.count
        integers += other.integers
        wideIntegers += other.wideIntegers
        fractions += other.fractions
        longFractions += other.longFractions
        booleans += other.booleans
        texts += other.texts
        forms.formIntersection(other.forms)
    }

    /// All are whole numbers, or all are texts.
    var isKey: Bool { count > 0 && (integers == count || texts == count) }

    var type: (name: String, members: [(key: String, json: String)], reason: String) {
        let numbers = integers + wideIntegers + fractions
        switch count {
        case 0: return ("transformable", [], "always null, so anything may come")
        case integers: return ("integer64", [], "")
        case numbers where longFractions > 0 || wideIntegers > 0:
            return ("decimal", [], "more digits than other numbers hold")
        case numbers: return ("double", [], "")
        case booleans: return ("boolean", [], "")
        case texts: return forms.isEmpty ? ("string", [], "") : forms.type
        default: return ("string", [], "values of several kinds, stored as text")
        }
    }
}
