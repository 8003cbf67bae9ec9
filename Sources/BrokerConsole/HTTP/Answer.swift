/// What is sent to a browser.
struct Answer: Sendable {
    enum Body: Sendable {
        case bytes([UInt8])
        /// Parts, as they come. No part is empty; an error ends the connection.
        case stream(AsyncThrowingStream<[UInt8], any Error>)
    }

    var status = 200
    var contentType = "text/html; charset=utf-8"
    var headers: [(name: String, value: String)] = []
    var body: Body

    init(_ body: Body, _ contentType: String, status: Int = 200) {
        (self.body, self.contentType, self.status) = (body, contentType, status)
    }

    static func text(_ text: String, _ contentType: String = "text/plain; charset=utf-8", status: Int = 200) -> Answer {
        Answer(.bytes(Array(text.utf8)), contentType, status: status)
    }

    /// A browser follows it with GET.
    static func redirection(_ location: String) -> Answer {
        var answer = Answer.text("", status: 303)
        answer.headers.append(("Location", location))
        return answer
    }
}
