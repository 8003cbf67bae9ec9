/// The possible type of a text, by its form.
struct TextForm: OptionSet, Hashable {
    let rawValue: Int

    static let uuid = TextForm(rawValue: 1)
    /// A date and a time as ISO 8601 writes them, with milliseconds at most.
    static let iso8601 = TextForm(rawValue: 2)
    static let dateAlone = TextForm(rawValue: 4)
    /// `Mon Sep 24 03:35:21 +0000 2012`, as Twitter writes it.
    static let twitter = TextForm(rawValue: 8)
    /// `Mon, 24 Sep 2012 03:35:21 +0000`, as mail and HTTP write it.
    static let mail = TextForm(rawValue: 16)
    /// `2012/09/24 03:35:21 +0000`, as Rails writes it.
    static let slashes = TextForm(rawValue: 32)

    static let all: TextForm = [.uuid, .iso8601, .dateAlone, .twitter, .mail, .slashes]

    init(rawValue: Int) { self.rawValue = rawValue }

    init(of text: String) {
        self = []
        guard (10...40).contains(text.utf8.count) else { return }
        if text.wholeMatch(of: #/[0-9A-Fa-f]{8}-([0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}/#) != nil { insert(.uuid) }
        let day = #/(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])/#
        if let match = text.wholeMatch(of: day), Self.isDay(match.1, match.2, match.3) { insert(.dateAlone) }
        let iso =
            #/(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[T ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,3})?(Z|[+-]\d\d:?\d\d)?/#
        if let match = text.wholeMatch(of: iso), Self.isDay(match.1, match.2, match.3) { insert(.iso8601) }
        let twitter =
            #/(Mon|Tue|Wed|Thu|Fri|Sat|Sun) (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (0[1-9]|[12]\d|3[01]) ([01]\d|2[0-3]):[0-5]\d:[0-5]\d [+-]\d{4} (\d{4})/#
        if let match = text.wholeMatch(of: twitter), Self.isDay(match.5, match.2, match.3) { insert(.twitter) }
        let mail =
            #/(Mon|Tue|Wed|Thu|Fri|Sat|Sun), (0[1-9]|[12]\d|3[01]) (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (\d{4}) ([01]\d|2[0-3]):[0-5]\d:[0-5]\d [+-]\d{4}/#
        if let match = text.wholeMatch(of: mail), Self.isDay(match.4, match.3, match.2) { insert(.mail) }
        let slashes =
            #/(\d{4})\/(0[1-9]|1[0-2])\/(0[1-9]|[12]\d|3[01]) ([01]\d|2[0-3]):[0-5]\d:[0-5]\d [+-]\d{4}/#
        if let match = text.wholeMatch(of: slashes), Self.isDay(match.1, match.2, match.3) { insert(.slashes) }
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// The month has such a day.
    private static func isDay(_ year: Substring, _ month: Substring, _ day: Substring) -> Bool {
        guard let year = Int(year), let day = Int(day),
            let month = Int(month) ?? months.firstIndex(of: String(month)).map({ $0 + 1 }), (1...12).contains(month)
        else { return false }
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        return day <= [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1]
    }

    /// The type that all texts of these forms have, with its members, and why.
    var type: (name: String, members: [(key: String, json: String)], reason: String) {
        if contains(.uuid) { return ("uuid", [], "all texts are UUIDs, which are stored in upper case") }
        let formats: [(TextForm, String?, String)] = [
            (.iso8601, nil, "all texts are dates with a time, as ISO 8601 writes them"),
            (.dateAlone, "yyyy-MM-dd", "all texts are dates without a time"),
            (.twitter, "EEE MMM dd HH:mm:ss Z yyyy", "all texts are dates, as Twitter writes them"),
            (.mail, "EEE, dd MMM yyyy HH:mm:ss Z", "all texts are dates, as mail writes them"),
            (.slashes, "yyyy/MM/dd HH:mm:ss Z", "all texts are dates"),
        ]
        for (form, format, reason) in formats where contains(form) {
            return ("date", format.map { [("format", ImportedModel.json($0))] } ?? [], reason)
        }
        return ("string", [], "")
    }
}
