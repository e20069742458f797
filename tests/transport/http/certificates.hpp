#pragma once

#include <gtest/gtest.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <unistd.h>

namespace godwit::transport::http::test {

/// A certificate that signs itself, and its key, as PEM files that are there as long as this is.
class self_signed {
public:
  explicit self_signed(const std::string& name)
      : folder_(std::filesystem::temp_directory_path() /
                ("godwit-tls-" + std::to_string(::getpid()) + "-" + name + "-" + std::to_string(++made_))) {
    std::filesystem::create_directories(folder_);
    write(name);
  }
  ~self_signed() { std::filesystem::remove_all(folder_); }
  self_signed(const self_signed&) = delete;
  self_signed& operator=(const self_signed&) = delete;

  [[nodiscard]] std::string certificate() const { return folder_ / "tls.crt"; }
  [[nodiscard]] std::string key() const { return folder_ / "tls.key"; }

  /// Another certificate and key, in the same files.
  void write(const std::string& name) const {
    const auto key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>(EVP_EC_gen("P-256"), EVP_PKEY_free);
    const auto made = std::unique_ptr<X509, decltype(&X509_free)>(X509_new(), X509_free);
    ASSERT_TRUE(key && made);
    X509_set_version(made.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), 3600);
    X509_set_pubkey(made.get(), key.get());
    auto* subject = X509_get_subject_name(made.get());
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name.c_str()), -1,
                               -1, 0);
    X509_set_issuer_name(made.get(), subject);
    ASSERT_NE(X509_sign(made.get(), key.get(), EVP_sha256()), 0);
    auto* out = std::fopen(certificate().c_str(), "w");
    ASSERT_TRUE(out != nullptr && PEM_write_X509(out, made.get()) == 1);
    std::fclose(out);
    out = std::fopen(this->key().c_str(), "w");
    ASSERT_TRUE(out != nullptr && PEM_write_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
    std::fclose(out);
  }

private:
  static inline int made_ = 0;
  std::filesystem::path folder_;
};

} // namespace godwit::transport::http::test
