// SPDX-License-Identifier: BSD-2-Clause
// The smallest Spring Boot application around the filter of docs/clients.md.
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Import;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

@EnableAutoConfiguration
@Import(Limit.class)
@RestController
public class App {
    @GetMapping("/")
    String hello() {
        return "hello\n";
    }

    public static void main(String[] args) {
        SpringApplication.run(App.class, args);
    }
}
