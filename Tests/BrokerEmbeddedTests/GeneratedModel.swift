// Made by `broker model swift` from a model. When the model changes, make the file again instead of editing it.
// swift-format-ignore-file
import Broker
import Foundation

/// An object of the entity `Worker`.
struct Worker: Codable, Hashable, Sendable {
    static let entity = "Worker"

    var id: Int64
    var name: String
    var `class`: String?
    var hiredAt: Date?
    var birthday: Date?
    var started: String?
    var latitude: Double?
    var longitude: Double?
    var extra: RawJSON?
    var salary: Decimal?
    var photo: Data?
    var token: UUID?
    var page: URL?
    var level: Int16?
    var isActive: Bool?
    /// The key of an object of the entity `Team`.
    var team: Int32?
    /// The keys of objects of the entity `Room`.
    var rooms: [Room.Key]?
    /// The keys of objects of the entity `Note`.
    var notes: [Int64]?
    /// The owned objects of the entity `Shift`.
    var shifts: [Shift]?

    init(
        id: Int64,
        name: String,
        `class`: String? = nil,
        hiredAt: Date? = nil,
        birthday: Date? = nil,
        started: String? = nil,
        latitude: Double? = nil,
        longitude: Double? = nil,
        extra: RawJSON? = nil,
        salary: Decimal? = nil,
        photo: Data? = nil,
        token: UUID? = nil,
        page: URL? = nil,
        level: Int16? = nil,
        isActive: Bool? = nil,
        team: Int32? = nil,
        rooms: [Room.Key]? = nil,
        notes: [Int64]? = nil,
        shifts: [Shift]? = nil
    ) {
        self.id = id
        self.name = name
        self.`class` = `class`
        self.hiredAt = hiredAt
        self.birthday = birthday
        self.started = started
        self.latitude = latitude
        self.longitude = longitude
        self.extra = extra
        self.salary = salary
        self.photo = photo
        self.token = token
        self.page = page
        self.level = level
        self.isActive = isActive
        self.team = team
        self.rooms = rooms
        self.notes = notes
        self.shifts = shifts
    }

    init(from decoder: any Decoder) throws {
        let record = try RecordPath.Reader(decoder)
        id = try record.value(at: ["id"])
        name = try record.value(at: ["name"])
        `class` = try record.valueIfPresent(at: ["class"])
        hiredAt = try record.valueIfPresent(at: ["hired_at"])
        birthday = try record.valueIfPresent(at: ["birthday"])
        started = try record.valueIfPresent(at: ["started"])
        latitude = try record.valueIfPresent(at: ["place", "geo", "lat"])
        longitude = try record.valueIfPresent(at: ["place", "geo", "lng"])
        extra = try record.valueIfPresent(at: ["extra"])
        salary = try record.valueIfPresent(at: ["salary"])
        photo = try record.valueIfPresent(at: ["photo"])
        token = try record.valueIfPresent(at: ["token"])
        page = try record.valueIfPresent(at: ["page"])
        level = try record.valueIfPresent(at: ["level"])
        isActive = try record.valueIfPresent(at: ["isActive"])
        team = try record.valueIfPresent(at: ["team"])
        rooms = try record.valueIfPresent(at: ["rooms"])
        notes = try record.valueIfPresent(at: ["notes"])
        shifts = try record.valueIfPresent(at: ["shifts"])
    }

    func encode(to encoder: any Encoder) throws {
        var record = encoder.container(keyedBy: RecordPath.Key.self)
        try RecordPath.write(id, at: ["id"][...], into: &record)
        try RecordPath.write(name, at: ["name"][...], into: &record)
        try RecordPath.write(`class`, at: ["class"][...], into: &record)
        try RecordPath.write(hiredAt, at: ["hired_at"][...], into: &record)
        try RecordPath.write(birthday, at: ["birthday"][...], into: &record)
        try RecordPath.write(started, at: ["started"][...], into: &record)
        try RecordPath.write(latitude, at: ["place", "geo", "lat"][...], into: &record)
        try RecordPath.write(longitude, at: ["place", "geo", "lng"][...], into: &record)
        try RecordPath.write(extra, at: ["extra"][...], into: &record)
        try RecordPath.write(salary, at: ["salary"][...], into: &record)
        try RecordPath.write(photo, at: ["photo"][...], into: &record)
        try RecordPath.write(token, at: ["token"][...], into: &record)
        try RecordPath.write(page, at: ["page"][...], into: &record)
        try RecordPath.write(level, at: ["level"][...], into: &record)
        try RecordPath.write(isActive, at: ["isActive"][...], into: &record)
        try RecordPath.write(team, at: ["team"][...], into: &record)
        try RecordPath.write(rooms, at: ["rooms"][...], into: &record)
        try RecordPath.write(notes, at: ["notes"][...], into: &record)
        try RecordPath.write(shifts, at: ["shifts"][...], into: &record)
    }
}

/// An object of the entity `Team`.
struct Team: Codable, Hashable, Sendable {
    static let entity = "Team"

    var id: Int32
    var name: String?

    init(
        id: Int32,
        name: String? = nil
    ) {
        self.id = id
        self.name = name
    }

    private enum CodingKeys: String, CodingKey {
        case id
        case name = "na\"me"
    }
}

/// An object of the entity `Room`.
struct Room: Codable, Hashable, Sendable {
    static let entity = "Room"

    var floor: Int16
    var number: String

    /// The key of an object: its identity.
    struct Key: Codable, Hashable, Sendable {
        var floor: Int16
        var number: String

        init(floor: Int16, number: String) {
            self.floor = floor
            self.number = number
        }
    }

    init(
        floor: Int16,
        number: String
    ) {
        self.floor = floor
        self.number = number
    }
}

/// An object of the entity `Note`.
struct Note: Codable, Hashable, Sendable {
    static let entity = "Note"

    var text: String?

    init(
        text: String? = nil
    ) {
        self.text = text
    }
}

/// An object of the entity `Shift`.
struct Shift: Codable, Hashable, Sendable {
    static let entity = "Shift"

    var parent_id: Int64?
    var position: Int64?
    var day: String?
    /// The key of an object of the entity `Worker`.
    var worker: Int64?

    /// The key of an object: its identity.
    struct Key: Codable, Hashable, Sendable {
        var parent_id: Int64
        var position: Int64

        init(parent_id: Int64, position: Int64) {
            self.parent_id = parent_id
            self.position = position
        }
    }

    init(
        parent_id: Int64? = nil,
        position: Int64? = nil,
        day: String? = nil,
        worker: Int64? = nil
    ) {
        self.parent_id = parent_id
        self.position = position
        self.day = day
        self.worker = worker
    }
}

/// Values in nested objects of a record, by the keys that lead to them.
private enum RecordPath {
    struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    struct Reader {
        private let record: KeyedDecodingContainer<Key>

        init(_ decoder: any Decoder) throws { record = try decoder.container(keyedBy: Key.self) }

        func value<Value: Decodable>(at path: [String]) throws -> Value {
            let container = try self.container(at: path) ?? record
            return try container.decode(Value.self, forKey: Key(stringValue: path[path.count - 1]))
        }

        func valueIfPresent<Value: Decodable>(at path: [String]) throws -> Value? {
            try container(at: path)?.decodeIfPresent(Value.self, forKey: Key(stringValue: path[path.count - 1]))
        }

        /// The object that holds the value; nil when the record lacks it.
        private func container(at path: [String]) throws -> KeyedDecodingContainer<Key>? {
            var container = record
            for name in path.dropLast() {
                let key = Key(stringValue: name)
                guard try container.contains(key) && !container.decodeNil(forKey: key) else { return nil }
                container = try container.nestedContainer(keyedBy: Key.self, forKey: key)
            }
            return container
        }
    }

    /// Writes nothing for nil. Paths that begin with the same key share its object.
    static func write<Value: Encodable>(
        _ value: Value?, at path: ArraySlice<String>, into container: inout KeyedEncodingContainer<Key>
    ) throws {
        guard let value, let first = path.first else { return }
        let key = Key(stringValue: first)
        guard path.count > 1 else { return try container.encode(value, forKey: key) }
        var nested = container.nestedContainer(keyedBy: Key.self, forKey: key)
        try write(value, at: path.dropFirst(), into: &nested)
    }
}
