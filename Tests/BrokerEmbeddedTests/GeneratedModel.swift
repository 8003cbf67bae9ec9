// Made by `broker model swift` from a model. When the model changes, make the file again instead of editing it.
// swift-format-ignore-file
public import Broker
public import Foundation

/// A person who works here.
/// Not a guest.
public struct Worker: Codable, Hashable, BrokerRecord {
    public static let entity = "Worker"

    public var id: Int64
    /// As on the badge.
    public var name: String
    public var `class`: String?
    public var hiredAt: Date?
    public var birthday: Date?
    /// A day: `2011-12-22`.
    public var started: String?
    public var latitude: Double?
    public var longitude: Double?
    public var details: RawJSON?
    public var salary: Decimal?
    public var photo: Data?
    public var token: UUID?
    public var page: URL?
    public var level: Level?
    public var size: Int32?
    public var ratio: Float?
    public var isActive: Bool?
    public var state: State?
    public var float: FloatValue?
    public var short: String?
    /// Keys that the model does not name, and values that do not fit.
    public var _extra: RawJSON?
    /// The key of an object of the entity `Team`.
    public var team: Team.Code?
    /// The keys of objects of the entity `Room`.
    public var rooms: [Room.Key]?
    /// Where the worker sits.
    /// The key of an object of the entity `Room`.
    public var desk: Room.Key?
    /// The key of an object of the entity `Badge`.
    public var badge: String?
    /// The keys of objects of the entity `Note`.
    public var notes: [Int64]?
    /// The owned objects of the entity `Shift`.
    public var shifts: [Shift]?

    public init(
        id: Int64,
        name: String,
        `class`: String? = nil,
        hiredAt: Date? = nil,
        birthday: Date? = nil,
        started: String? = nil,
        latitude: Double? = nil,
        longitude: Double? = nil,
        details: RawJSON? = nil,
        salary: Decimal? = nil,
        photo: Data? = nil,
        token: UUID? = nil,
        page: URL? = nil,
        level: Level? = nil,
        size: Int32? = nil,
        ratio: Float? = nil,
        isActive: Bool? = nil,
        state: State? = nil,
        float: FloatValue? = nil,
        short: String? = nil,
        _extra: RawJSON? = nil,
        team: Team.Code? = nil,
        rooms: [Room.Key]? = nil,
        desk: Room.Key? = nil,
        badge: String? = nil,
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
        self.details = details
        self.salary = salary
        self.photo = photo
        self.token = token
        self.page = page
        self.level = level
        self.size = size
        self.ratio = ratio
        self.isActive = isActive
        self.state = state
        self.float = float
        self.short = short
        self._extra = _extra
        self.team = team
        self.rooms = rooms
        self.desk = desk
        self.badge = badge
        self.notes = notes
        self.shifts = shifts
    }

    public init(from decoder: any Decoder) throws {
        let record = try RecordPath.Reader(decoder)
        self.id = try record.value(at: ["id"])
        self.name = try record.value(at: ["name"])
        self.`class` = try record.valueIfPresent(at: ["class"])
        self.hiredAt = try record.valueIfPresent(at: ["hired_at"])
        self.birthday = try record.valueIfPresent(at: ["birthday"])
        self.started = try record.valueIfPresent(at: ["started"])
        self.latitude = try record.valueIfPresent(at: ["place", "geo", "lat"])
        self.longitude = try record.valueIfPresent(at: ["place", "geo", "lng"])
        self.details = try record.valueIfPresent(at: ["details"])
        self.salary = try record.valueIfPresent(at: ["salary"])
        self.photo = try record.valueIfPresent(at: ["photo"])
        self.token = try record.valueIfPresent(at: ["token"])
        self.page = try record.valueIfPresent(at: ["page"])
        self.level = try record.valueIfPresent(at: ["level"])
        self.size = try record.valueIfPresent(at: ["size"])
        self.ratio = try record.valueIfPresent(at: ["ratio"])
        self.isActive = try record.valueIfPresent(at: ["isActive"])
        self.state = try record.valueIfPresent(at: ["state"])
        self.float = try record.valueIfPresent(at: ["float"])
        self.short = try record.valueIfPresent(at: ["short"])
        self._extra = try record.valueIfPresent(at: ["_extra"])
        self.team = try record.valueIfPresent(at: ["team"])
        self.rooms = try record.valueIfPresent(at: ["rooms"])
        self.desk = try record.valueIfPresent(at: ["desk"])
        self.badge = try record.valueIfPresent(at: ["badge"])
        self.notes = try record.valueIfPresent(at: ["notes"])
        self.shifts = try record.valueIfPresent(at: ["shifts"])
    }

    public func encode(to encoder: any Encoder) throws {
        var record = encoder.container(keyedBy: RecordPath.Key.self)
        try RecordPath.write(self.id, at: ["id"][...], into: &record)
        try RecordPath.write(self.name, at: ["name"][...], into: &record)
        try RecordPath.write(self.`class`, at: ["class"][...], into: &record)
        try RecordPath.write(self.hiredAt, at: ["hired_at"][...], into: &record)
        try RecordPath.write(self.birthday, at: ["birthday"][...], into: &record)
        try RecordPath.write(self.started, at: ["started"][...], into: &record)
        try RecordPath.write(self.latitude, at: ["place", "geo", "lat"][...], into: &record)
        try RecordPath.write(self.longitude, at: ["place", "geo", "lng"][...], into: &record)
        try RecordPath.write(self.details, at: ["details"][...], into: &record)
        try RecordPath.write(self.salary, at: ["salary"][...], into: &record)
        try RecordPath.write(self.photo, at: ["photo"][...], into: &record)
        try RecordPath.write(self.token, at: ["token"][...], into: &record)
        try RecordPath.write(self.page, at: ["page"][...], into: &record)
        try RecordPath.write(self.level, at: ["level"][...], into: &record)
        try RecordPath.write(self.size, at: ["size"][...], into: &record)
        try RecordPath.write(self.ratio, at: ["ratio"][...], into: &record)
        try RecordPath.write(self.isActive, at: ["isActive"][...], into: &record)
        try RecordPath.write(self.state, at: ["state"][...], into: &record)
        try RecordPath.write(self.float, at: ["float"][...], into: &record)
        try RecordPath.write(self.short, at: ["short"][...], into: &record)
        try RecordPath.write(self._extra, at: ["_extra"][...], into: &record)
        try RecordPath.write(self.team, at: ["team"][...], into: &record)
        try RecordPath.write(self.rooms, at: ["rooms"][...], into: &record)
        try RecordPath.write(self.desk, at: ["desk"][...], into: &record)
        try RecordPath.write(self.badge, at: ["badge"][...], into: &record)
        try RecordPath.write(self.notes, at: ["notes"][...], into: &record)
        try RecordPath.write(self.shifts, at: ["shifts"][...], into: &record)
    }

    /// The values that `level` may have.
    public enum Level: Int16, Codable, Hashable, Sendable {
        case _1 = 1
        case _2 = 2
        case minus1 = -1
    }

    /// The values that `state` may have.
    public enum State: String, Codable, Hashable, Sendable {
        case open = "open"
        case inProgress = "in-progress"
        case none_ = "none"
        case none__ = "NONE"
        case httpError = "HTTPError"
        case `default` = "default"
        case _2nd = "2nd"
        case empty = ""
        case other = "*"
    }

    /// The values that `float` may have.
    public enum FloatValue: String, Codable, Hashable, Sendable {
        case a = "a"
    }
}

/// An object of the entity `Manager`.
public struct Manager: Codable, Hashable, BrokerRecord {
    public static let entity = "Manager"

    public var id: Int64
    /// As on the badge.
    public var name: String
    public var `class`: String?
    public var hiredAt: Date?
    public var birthday: Date?
    /// A day: `2011-12-22`.
    public var started: String?
    public var latitude: Double?
    public var longitude: Double?
    public var details: RawJSON?
    public var salary: Decimal?
    public var photo: Data?
    public var token: UUID?
    public var page: URL?
    public var level: Level?
    public var size: Int32?
    public var ratio: Float?
    public var isActive: Bool?
    public var state: State?
    public var float: FloatValue?
    public var short: String?
    /// Keys that the model does not name, and values that do not fit.
    public var _extra: RawJSON?
    public var bonus: Decimal?
    /// The key of an object of the entity `Team`.
    public var team: Team.Code?
    /// The keys of objects of the entity `Room`.
    public var rooms: [Room.Key]?
    /// Where the worker sits.
    /// The key of an object of the entity `Room`.
    public var desk: Room.Key?
    /// The key of an object of the entity `Badge`.
    public var badge: String?
    /// The keys of objects of the entity `Note`.
    public var notes: [Int64]?
    /// The owned objects of the entity `Shift`.
    public var shifts: [Shift]?

    public init(
        id: Int64,
        name: String,
        `class`: String? = nil,
        hiredAt: Date? = nil,
        birthday: Date? = nil,
        started: String? = nil,
        latitude: Double? = nil,
        longitude: Double? = nil,
        details: RawJSON? = nil,
        salary: Decimal? = nil,
        photo: Data? = nil,
        token: UUID? = nil,
        page: URL? = nil,
        level: Level? = nil,
        size: Int32? = nil,
        ratio: Float? = nil,
        isActive: Bool? = nil,
        state: State? = nil,
        float: FloatValue? = nil,
        short: String? = nil,
        _extra: RawJSON? = nil,
        bonus: Decimal? = nil,
        team: Team.Code? = nil,
        rooms: [Room.Key]? = nil,
        desk: Room.Key? = nil,
        badge: String? = nil,
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
        self.details = details
        self.salary = salary
        self.photo = photo
        self.token = token
        self.page = page
        self.level = level
        self.size = size
        self.ratio = ratio
        self.isActive = isActive
        self.state = state
        self.float = float
        self.short = short
        self._extra = _extra
        self.bonus = bonus
        self.team = team
        self.rooms = rooms
        self.desk = desk
        self.badge = badge
        self.notes = notes
        self.shifts = shifts
    }

    public init(from decoder: any Decoder) throws {
        let record = try RecordPath.Reader(decoder)
        self.id = try record.value(at: ["id"])
        self.name = try record.value(at: ["name"])
        self.`class` = try record.valueIfPresent(at: ["class"])
        self.hiredAt = try record.valueIfPresent(at: ["hired_at"])
        self.birthday = try record.valueIfPresent(at: ["birthday"])
        self.started = try record.valueIfPresent(at: ["started"])
        self.latitude = try record.valueIfPresent(at: ["place", "geo", "lat"])
        self.longitude = try record.valueIfPresent(at: ["place", "geo", "lng"])
        self.details = try record.valueIfPresent(at: ["details"])
        self.salary = try record.valueIfPresent(at: ["salary"])
        self.photo = try record.valueIfPresent(at: ["photo"])
        self.token = try record.valueIfPresent(at: ["token"])
        self.page = try record.valueIfPresent(at: ["page"])
        self.level = try record.valueIfPresent(at: ["level"])
        self.size = try record.valueIfPresent(at: ["size"])
        self.ratio = try record.valueIfPresent(at: ["ratio"])
        self.isActive = try record.valueIfPresent(at: ["isActive"])
        self.state = try record.valueIfPresent(at: ["state"])
        self.float = try record.valueIfPresent(at: ["float"])
        self.short = try record.valueIfPresent(at: ["short"])
        self._extra = try record.valueIfPresent(at: ["_extra"])
        self.bonus = try record.valueIfPresent(at: ["bonus"])
        self.team = try record.valueIfPresent(at: ["team"])
        self.rooms = try record.valueIfPresent(at: ["rooms"])
        self.desk = try record.valueIfPresent(at: ["desk"])
        self.badge = try record.valueIfPresent(at: ["badge"])
        self.notes = try record.valueIfPresent(at: ["notes"])
        self.shifts = try record.valueIfPresent(at: ["shifts"])
    }

    public func encode(to encoder: any Encoder) throws {
        var record = encoder.container(keyedBy: RecordPath.Key.self)
        try RecordPath.write(self.id, at: ["id"][...], into: &record)
        try RecordPath.write(self.name, at: ["name"][...], into: &record)
        try RecordPath.write(self.`class`, at: ["class"][...], into: &record)
        try RecordPath.write(self.hiredAt, at: ["hired_at"][...], into: &record)
        try RecordPath.write(self.birthday, at: ["birthday"][...], into: &record)
        try RecordPath.write(self.started, at: ["started"][...], into: &record)
        try RecordPath.write(self.latitude, at: ["place", "geo", "lat"][...], into: &record)
        try RecordPath.write(self.longitude, at: ["place", "geo", "lng"][...], into: &record)
        try RecordPath.write(self.details, at: ["details"][...], into: &record)
        try RecordPath.write(self.salary, at: ["salary"][...], into: &record)
        try RecordPath.write(self.photo, at: ["photo"][...], into: &record)
        try RecordPath.write(self.token, at: ["token"][...], into: &record)
        try RecordPath.write(self.page, at: ["page"][...], into: &record)
        try RecordPath.write(self.level, at: ["level"][...], into: &record)
        try RecordPath.write(self.size, at: ["size"][...], into: &record)
        try RecordPath.write(self.ratio, at: ["ratio"][...], into: &record)
        try RecordPath.write(self.isActive, at: ["isActive"][...], into: &record)
        try RecordPath.write(self.state, at: ["state"][...], into: &record)
        try RecordPath.write(self.float, at: ["float"][...], into: &record)
        try RecordPath.write(self.short, at: ["short"][...], into: &record)
        try RecordPath.write(self._extra, at: ["_extra"][...], into: &record)
        try RecordPath.write(self.bonus, at: ["bonus"][...], into: &record)
        try RecordPath.write(self.team, at: ["team"][...], into: &record)
        try RecordPath.write(self.rooms, at: ["rooms"][...], into: &record)
        try RecordPath.write(self.desk, at: ["desk"][...], into: &record)
        try RecordPath.write(self.badge, at: ["badge"][...], into: &record)
        try RecordPath.write(self.notes, at: ["notes"][...], into: &record)
        try RecordPath.write(self.shifts, at: ["shifts"][...], into: &record)
    }

    /// The values that `level` may have.
    public enum Level: Int16, Codable, Hashable, Sendable {
        case _1 = 1
        case _2 = 2
        case minus1 = -1
    }

    /// The values that `state` may have.
    public enum State: String, Codable, Hashable, Sendable {
        case open = "open"
        case inProgress = "in-progress"
        case none_ = "none"
        case none__ = "NONE"
        case httpError = "HTTPError"
        case `default` = "default"
        case _2nd = "2nd"
        case empty = ""
        case other = "*"
    }

    /// The values that `float` may have.
    public enum FloatValue: String, Codable, Hashable, Sendable {
        case a = "a"
    }
}

/// An object of the entity `Team`.
public struct Team: Codable, Hashable, BrokerRecord {
    public static let entity = "Team"

    public var code: Code
    public var name: String?
    /// The objects of the entity `Worker`.
    public var workers: [Worker]?
    /// The object of the entity `Manager`.
    public var head: Manager?

    public init(
        code: Code,
        name: String? = nil,
        workers: [Worker]? = nil,
        head: Manager? = nil
    ) {
        self.code = code
        self.name = name
        self.workers = workers
        self.head = head
    }

    private enum CodingKeys: String, CodingKey {
        case code
        case name = "na\"me"
        case workers
        case head
    }

    /// The values that `code` may have.
    public enum Code: String, Codable, Hashable, Sendable {
        case dev = "dev"
        case ops = "ops"
    }
}

/// An object of the entity `Room`.
public struct Room: Codable, Hashable, BrokerRecord {
    public static let entity = "Room"

    public var floor: Int16
    public var number: String

    public init(
        floor: Int16,
        number: String
    ) {
        self.floor = floor
        self.number = number
    }

    private enum CodingKeys: String, CodingKey {
        case floor
        case number = "room_number"
    }

    /// The key of an object, as a relationship has it: its identity.
    public struct Key: Codable, Hashable, Sendable {
        public var floor: Int16
        public var number: String

        public init(
            floor: Int16,
            number: String
        ) {
            self.floor = floor
            self.number = number
        }

        private enum CodingKeys: String, CodingKey {
            case floor
            case number = "room_number"
        }
    }
}

/// An object of the entity `Badge`.
public struct Badge: Codable, Hashable, BrokerRecord {
    public static let entity = "Badge"

    public var code: String?

    public init(
        code: String? = nil
    ) {
        self.code = code
    }
}

/// An object of the entity `Note`.
public struct Note: Codable, Hashable, BrokerRecord {
    public static let entity = "Note"

    public var text: String?
    /// The key of an object of the entity `Note`.
    public var about: Int64?

    public init(
        text: String? = nil,
        about: Int64? = nil
    ) {
        self.text = text
        self.about = about
    }
}

/// An object of the entity `Shift`.
public struct Shift: Codable, Hashable, BrokerRecord {
    public static let entity = "Shift"

    public var parent_id: Int64?
    public var position: Int64?
    public var day: String?
    /// The key of an object of the entity `Worker`.
    public var worker: Int64?

    public init(
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

    /// The key of an object, as a relationship has it: its identity.
    public struct Key: Codable, Hashable, Sendable {
        public var parent_id: Int64
        public var position: Int64

        public init(
            parent_id: Int64,
            position: Int64
        ) {
            self.parent_id = parent_id
            self.position = position
        }
    }
}

/// An object of the entity `string`.
public struct StringRecord: Codable, Hashable, BrokerRecord {
    public static let entity = "string"

    public var id: Int64
    public var init_: String?
    public var self_: String?
    public var record: String?
    public var a_b: String?
    public var a_b_: String?
    public var entity: String?
    public var Key_: String?
    public var decoder: String?
    public var _2: String?

    public init(
        id: Int64,
        init_: String? = nil,
        self_: String? = nil,
        record: String? = nil,
        a_b: String? = nil,
        a_b_: String? = nil,
        entity: String? = nil,
        Key_: String? = nil,
        decoder: String? = nil,
        _2: String? = nil
    ) {
        self.id = id
        self.init_ = init_
        self.self_ = self_
        self.record = record
        self.a_b = a_b
        self.a_b_ = a_b_
        self.entity = entity
        self.Key_ = Key_
        self.decoder = decoder
        self._2 = _2
    }

    public init(from decoder: any Decoder) throws {
        let record = try RecordPath.Reader(decoder)
        self.id = try record.value(at: ["id"])
        self.init_ = try record.valueIfPresent(at: ["init"])
        self.self_ = try record.valueIfPresent(at: ["self"])
        self.record = try record.valueIfPresent(at: ["a", "b"])
        self.a_b = try record.valueIfPresent(at: ["a-b"])
        self.a_b_ = try record.valueIfPresent(at: ["a_b"])
        self.entity = try record.valueIfPresent(at: ["entity"])
        self.Key_ = try record.valueIfPresent(at: ["Key"])
        self.decoder = try record.valueIfPresent(at: ["decoder"])
        self._2 = try record.valueIfPresent(at: ["2"])
    }

    public func encode(to encoder: any Encoder) throws {
        var record = encoder.container(keyedBy: RecordPath.Key.self)
        try RecordPath.write(self.id, at: ["id"][...], into: &record)
        try RecordPath.write(self.init_, at: ["init"][...], into: &record)
        try RecordPath.write(self.self_, at: ["self"][...], into: &record)
        try RecordPath.write(self.record, at: ["a", "b"][...], into: &record)
        try RecordPath.write(self.a_b, at: ["a-b"][...], into: &record)
        try RecordPath.write(self.a_b_, at: ["a_b"][...], into: &record)
        try RecordPath.write(self.entity, at: ["entity"][...], into: &record)
        try RecordPath.write(self.Key_, at: ["Key"][...], into: &record)
        try RecordPath.write(self.decoder, at: ["decoder"][...], into: &record)
        try RecordPath.write(self._2, at: ["2"][...], into: &record)
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
