import Hummingbird

struct Employee: ResponseCodable {
    var id: Int
    var name: String
}
